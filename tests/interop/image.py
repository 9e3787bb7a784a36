"""The guest's disk: kernel, initramfs and root file system from the packages of a Debian release.

Nothing is installed on the host: the kernel's package is only unpacked. The result lies in the
cache, in a folder named by the hash of everything that goes into it, so that a changed recipe makes
a new image and an unchanged one is used again.
"""

import fcntl
import hashlib
import lzma
import os
import pathlib
import re
import shutil
import struct
import subprocess

from process import die_with_parent

HERE = pathlib.Path(__file__).resolve().parent
# Debian 12 (Linux 6.1, rdma-core 44) and Debian 13 (Linux 6.12, rdma-core 56).
SUITES = ("bookworm", "trixie")
PACKAGES = ("busybox-static", "fio", "git", "ibverbs-utils", "iproute2", "iputils-ping", "kmod",
            "libfabric-bin", "netbase", "nfs-common", "nfs-kernel-server", "open-iscsi", "perftest",
            "procps", "rdma-core", "rdmacm-utils", "rpcbind", "ucx-utils")
# The libraries of Pollux's programs, which run in guests that have a NIC for them. The programs are
# built on the host, which must have this release, too.
NIC_SUITE = "bookworm"
LIBRARIES = ("libabsl20220623", "libatomic1", "libbpf1", "libbsd0", "libcivetweb1", "libelf1",
             "libisal2", "libnuma1", "libpcap0.8", "libprometheus-cpp-core1.0", "libsodium23",
             "libtirpc3", "liburing2", "libxdp1")
# What the initramfs loads to reach the root file system and the shared folder.
BOOT_MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "9p", "9pnet_virtio", "squashfs",
                "overlay")
MODULES = BOOT_MODULES + (
    "virtio_rng", "rdma_rxe", "rdma_ucm", "ib_uverbs", "ib_umad", "rpcrdma", "nfs", "nfsv3",
    "nfsv4", "nfsd", "auth_rpcgss", "8021q", "ifb", "sch_netem", "sch_ingress", "cls_u32",
    "act_gact", "act_mirred", "crc32_generic", "crc32_pclmul", "tun", "uio_pci_generic",
    "vfio_pci", "ib_iser", "sd_mod")
# Never read in the guest; half of the file system.
LEFT_OUT = ("usr/share/doc/*", "usr/share/man/*", "usr/share/info/*", "usr/share/locale/*",
            "usr/share/perl/*", "usr/share/zoneinfo/*", "usr/share/bash-completion/*",
            "usr/lib/udev/hwdb*", "usr/lib/x86_64-linux-gnu/perl/*",
            "usr/lib/x86_64-linux-gnu/gconv/*", "var/cache/*", "var/lib/apt/*",
            "var/lib/dpkg/info/*")
INITRAMFS_SCRIPT = HERE / "guest_initramfs.sh"
XZ_MAGIC, ZSTD_MAGIC = b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
FILES = ("vmlinux", "initrd.cpio", "root.squashfs")


class ImageError(Exception):
    """What could not be built, with the end of what the tool said."""


def cache_root():
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "pollux" / "guest"


def recipe_hash(suite):
    recipe = hashlib.sha256(suite.encode())
    for part in (pathlib.Path(__file__), INITRAMFS_SCRIPT):
        recipe.update(part.read_bytes())
    return recipe.hexdigest()[:16]


def run(*command, cwd=None):
    """Runs a command that must succeed and ends with this process; returns its output."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                          errors="replace", check=False, preexec_fn=die_with_parent)
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise ImageError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{tail}")
    return done.stdout


def unpack_kernel(work):
    """Fetches and unpacks the kernel package of the release in work/root; returns its version."""
    apt = ("-o", f"Dir={work}/root", "-o", f"Dir::State::status={work}/root/var/lib/dpkg/status")
    depends = run("apt-cache", *apt, "depends", "linux-image-amd64")
    found = re.search(r"Depends: (linux-image-\S+)", depends)
    if not found:
        raise ImageError("apt knows no linux-image-amd64")
    run("apt-get", *apt, "-qq", "download", found[1], cwd=work)
    kernel = work / "kernel"
    run("dpkg-deb", "-x", next(work.glob("linux-image-*.deb")), kernel)
    if not (kernel / "lib").exists():  # newer packages have their modules in /usr/lib
        (kernel / "lib").symlink_to("usr/lib")
    version = next((kernel / "lib/modules").iterdir()).name
    run("depmod", "-b", kernel, version)
    return version


def extract_vmlinux(compressed, to):
    """Writes the kernel as ELF: QEMU enters it directly, which saves seconds of decompression.

    Source: Documentation/arch/x86/boot.rst, fields setup_sects, payload_offset and payload_length.
    """
    image = compressed.read_bytes()
    setup_sectors = image[0x1F1]
    offset, length = struct.unpack_from("<II", image, 0x248)
    begin = (setup_sectors + 1) * 512 + offset
    payload = image[begin:begin + length - 4]  # behind it is its length when decompressed
    if payload.startswith(XZ_MAGIC):
        kernel = lzma.LZMADecompressor().decompress(payload)
    elif payload.startswith(ZSTD_MAGIC):
        kernel = subprocess.run(["zstd", "-dc"], input=payload, stdout=subprocess.PIPE,
                                check=True).stdout
    else:
        raise ImageError(f"{compressed.name} is compressed neither by xz nor by zstd")
    if not kernel.startswith(b"\x7fELF"):
        raise ImageError(f"what {compressed.name} holds is no ELF file")
    to.write_bytes(kernel)


def module_files(work, version, modules):
    """The files of modules and of what they need, each once, in the order of loading."""
    files = []
    for module in modules:
        for line in run("modprobe", "-d", work / "kernel", "-S", version, "--show-depends",
                        module).splitlines():
            words = line.split()
            if words[0] == "insmod" and words[1] not in files:
                files.append(words[1])
    return [pathlib.Path(file) for file in files]


def copy_module(file, folder):
    """Copies a module, decompressed: an emulated processor would take long. Returns its name."""
    if file.suffix != ".xz":
        shutil.copy(file, folder)
        return file.name
    (folder / file.stem).write_bytes(lzma.decompress(file.read_bytes()))
    return file.stem


def make_root(work, suite):
    packages = PACKAGES + (LIBRARIES if suite == NIC_SUITE else ())
    # In namespaces that end with it: a debootstrap that is killed leaves neither its mounts of
    # /proc and /sys nor the programs that it runs.
    run("unshare", "--mount", "--pid", "--kill-child", "--mount-proc", "debootstrap",
        "--variant=minbase", f"--include={','.join(packages)}", suite, work / "root")


def make_disk(work, version):
    root = work / "root"
    modules = pathlib.Path("lib/modules") / version
    kernel = work / "kernel"
    for file in module_files(work, version, MODULES):
        folder = (root / file.relative_to(kernel)).parent
        folder.mkdir(parents=True, exist_ok=True)
        copy_module(file, folder)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(kernel / modules / name, root / modules / name)
    run("depmod", "-b", root, version)
    for folder in ("host", "export"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    # Uncompressed: emulated decompression costs more than reading.
    run("mksquashfs", root, work / "root.squashfs", "-noI", "-noD", "-noF", "-noX", "-no-progress",
        "-quiet", "-wildcards", "-e", *LEFT_OUT)


def make_initramfs(work, version):
    tree = work / "initramfs"
    for folder in ("bin", "modules", "proc", "dev", "lower", "upper", "new"):
        (tree / folder).mkdir(parents=True)
    shutil.copy(work / "root/bin/busybox", tree / "bin/busybox")
    order = [copy_module(file, tree / "modules")
             for file in module_files(work, version, BOOT_MODULES)]
    (tree / "modules/order").write_text("".join(f"{name}\n" for name in order))
    shutil.copy(INITRAMFS_SCRIPT, tree / "init")
    (tree / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    with open(work / "initrd.cpio", "wb") as archive:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=tree, input=names.encode(),
                       stdout=archive, check=True)


def remove(folder):
    """Removes a folder, if it exists, unless something is mounted in it."""
    folder = folder.resolve()  # as the kernel names it
    mounts = [words[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()
              if (words := line.split())[1].startswith(f"{folder}/")]
    if mounts:
        raise ImageError(f"{folder} has mounts of an interrupted build; run: "
                         f"umount {' '.join(reversed(mounts))}")
    if folder.exists():
        shutil.rmtree(folder)


def build(say, suite):
    """The folder with FILES, built if need be; `say` is told when that takes its minutes."""
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    image = root / recipe_hash(suite)
    # Two runs at once build one image.
    with open(root / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if image.exists():
            return image
        say(f"building the guest from packages of Debian {suite}, once: a few minutes")
        work = root / f"{image.name}.building"
        remove(work)
        work.mkdir()
        make_root(work, suite)
        version = unpack_kernel(work)
        extract_vmlinux(work / f"kernel/boot/vmlinuz-{version}", work / "vmlinux")
        make_disk(work, version)
        make_initramfs(work, version)
        done = root / f"{image.name}.done"
        shutil.rmtree(done, ignore_errors=True)
        done.mkdir()
        for name in FILES:
            (work / name).rename(done / name)
        shutil.rmtree(work)
        done.rename(image)
    return image
