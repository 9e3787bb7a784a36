"""The parts of DPDK that are linked, all statically.

With shared libraries, EAL would search for drivers at every start and load all of them, some 130,
with the libraries they need, which takes most of the start-up time. A program that uses DPDK itself
would also share these libraries with libpollux_verbs.so.
"""

_VIRTUAL_DRIVERS = ["af_packet", "af_xdp", "memif", "null", "ring", "tap"]

# The drivers of Ethernet NICs on x86 that Debian ships with the libraries they need, and the virtual
# drivers that Pollux's tests do not use.
_NIC_DRIVERS = [
    "atlantic",
    "axgbe",
    "bnxt",
    "cxgbe",
    "e1000",
    "ena",
    "enic",
    "fm10k",
    "gve",
    "hinic",
    "hns3",
    "i40e",
    "iavf",
    "ice",
    "idpf",
    "igc",
    "ionic",
    "ixgbe",
    "netvsc",
    "nfp",
    "ngbe",
    "pcap",
    "qede",
    "sfc",
    "txgbe",
    "vhost",
    "virtio",
    "vmxnet3",
]

def _archives(names):
    return ["-l:librte_{}.a".format(name) for name in names]

# Drivers register themselves, and nothing refers to them.
def _drivers(names):
    return ["-Wl,--whole-archive"] + _archives(names) + ["-Wl,--no-whole-archive"]

def _group(names):
    return ["-Wl,--start-group"] + _archives(names) + ["-Wl,--end-group"]

_LIBRARIES = [
    "eal",
    "ethdev",
    "gso",
    "hash",
    "kvargs",
    "log",
    "mbuf",
    "mempool",
    "meter",
    "net",
    "pci",
    "rcu",
    "ring",
    "telemetry",
]

# Libraries that DPDK 24.11 has split off others of DPDK 22.11.
DPDK_SINCE = {
    "-l:librte_common_ionic.a": "24.11",
    "-l:librte_common_nfp.a": "24.11",
    "-l:librte_log.a": "24.11",
}

DPDK_LINKOPTS = {
    "//:dpdk": (
        _drivers(["bus_vdev", "mempool_ring"] + ["net_" + name for name in _VIRTUAL_DRIVERS]) +
        _group(_LIBRARIES) +
        ["-lxdp", "-lbpf", "-lnuma", "-lbsd", "-lpthread", "-ldl", "-lm"]
    ),
    # For programs that may be given a NIC.
    "//:nic_drivers": (
        _drivers(["bus_pci", "bus_vmbus"] + ["net_" + name for name in _NIC_DRIVERS]) +
        _group([
            "common_iavf",
            "common_idpf",
            "common_ionic",
            "common_nfp",
            "common_sfc_efx",
            "cryptodev",
            "dmadev",
            "security",
            "timer",
            "vhost",
        ] + _LIBRARIES) +
        # sfc of DPDK 24.11 loads and stores 16 bytes atomically.
        ["-latomic", "-lpcap", "-lbsd", "-lm"]
    ),
    # For programs that use the real libibverbs, which these drivers need; under `pollux run` Pollux's
    # replaces it.
    "//:mellanox_drivers": (
        _drivers(["bus_auxiliary", "common_mlx5", "net_mlx4", "net_mlx5"]) +
        _group(_LIBRARIES) +
        ["-lmlx4", "-lmlx5", "-libverbs"]
    ),
}
