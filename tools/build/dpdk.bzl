"""What of DPDK is linked, statically.

The shared libraries would look for drivers at every start, and load some 160 of them, which takes
longer than all else; and a program that uses DPDK itself would share them with libpollux_verbs.so.
"""

_VIRTUAL_DRIVERS = ["af_packet", "af_xdp", "memif", "ring", "tap"]

# Ethernet NICs whose drivers need nothing but DPDK.
_NIC_DRIVERS = [
    "atlantic",
    "axgbe",
    "bnxt",
    "cxgbe",
    "e1000",
    "ena",
    "enic",
    "gve",
    "hns3",
    "i40e",
    "iavf",
    "ice",
    "igc",
    "ionic",
    "ixgbe",
    "nfp",
    "ngbe",
    "qede",
    "sfc",
    "txgbe",
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
    "mbuf",
    "mempool",
    "meter",
    "net",
    "pci",
    "rcu",
    "ring",
    "telemetry",
]

DPDK_LINKOPTS = {
    "//:dpdk": (
        _drivers(["bus_vdev", "mempool_ring"] + ["net_" + name for name in _VIRTUAL_DRIVERS]) +
        _group(["bus_pci"] + _LIBRARIES) +
        ["-lxdp", "-lbpf", "-lelf", "-lnuma", "-lbsd", "-lpthread", "-ldl", "-lm"]
    ),
    # Of programs that may be given a NIC.
    "//:nic_drivers": (
        _drivers(["bus_pci"] + ["net_" + name for name in _NIC_DRIVERS]) +
        _group(["common_iavf", "common_sfc_efx", "cryptodev", "security", "timer"] + _LIBRARIES) +
        ["-lbsd", "-lz", "-lm"]
    ),
    # Of programs that are not libibverbs themselves, which these need.
    "//:mellanox_drivers": (
        _drivers(["bus_auxiliary", "common_mlx5", "net_mlx4", "net_mlx5"]) +
        _group(_LIBRARIES) +
        ["-lmlx4", "-lmlx5", "-libverbs"]
    ),
}
