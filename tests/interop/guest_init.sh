#!/bin/bash
# The guest's init: brings up eth0 and rxe0, or prepares a NIC for DPDK, as /host/settings says.
# Then it runs what appears in /host/run: N.sh is started once N.go is there, its output goes to
# N.out, its status to N.rc.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C.UTF-8
mount -t sysfs sys /sys
for folder in /run /tmp; do mount -t tmpfs memory "$folder"; done
mkdir -p /dev/shm /dev/pts /run/lock
mount -t tmpfs memory /dev/shm
mount -t devpts pts /dev/pts
ln -s /proc/self/fd /dev/fd
for number in 0 1 2; do
  ln -s "/proc/self/fd/$number" "/dev/$(cut -d' ' -f$((number + 1)) <<<'stdin stdout stderr')"
done
# ADDRESSES, MTU, VLAN; or FOLDER, PROGRAMS, NIC, NIC_DRIVER
source /host/settings
hostname guest
echo "127.0.0.1 localhost guest" >/etc/hosts
# No name service: look-ups fail at once instead of after half a minute.
: >/etc/resolv.conf
ulimit -l unlimited
echo 0 >/proc/sys/kernel/printk_ratelimit
ip link set lo up

set_up_rxe() {
  ip link set eth0 mtu "$MTU" up
  for address in $ADDRESSES; do ip addr add "$address" dev eth0 nodad 2>/dev/null ||
    ip addr add "$address" dev eth0; done
  modprobe -a rdma_rxe rdma_ucm ib_uverbs ib_umad 8021q
  if [[ -n $VLAN ]]; then
    ip link add link eth0 name "eth0.${VLAN%%:*}" type vlan id "${VLAN%%:*}"
    ip link set "eth0.${VLAN%%:*}" up
    ip addr add "${VLAN#*:}" dev "eth0.${VLAN%%:*}"
  fi
  mount -t configfs config /sys/kernel/config 2>/dev/null
  rdma link add rxe0 type rxe netdev eth0 || echo "no rxe0"
}

# Binds the NIC to the driver for DPDK, as dpdk-devbind.py does.
set_up_nic() {
  local device="/sys/bus/pci/devices/$NIC"
  mkdir -p /dev/hugepages "$FOLDER" "$PROGRAMS"
  mount -t hugetlbfs pages /dev/hugepages
  mount -t 9p -o trans=virtio,version=9p2000.L,cache=none,msize=131072 bench "$FOLDER"
  mount -t squashfs -o ro /dev/vdb "$PROGRAMS"
  modprobe -a tun "$NIC_DRIVER"
  [[ ! -e $device/driver ]] || echo "$NIC" >"$device/driver/unbind"
  echo "$NIC_DRIVER" >"$device/driver_override"
  echo "$NIC" >/sys/bus/pci/drivers_probe
  [[ $(readlink "$device/driver") == */$NIC_DRIVER ]] && return
  echo "no $NIC_DRIVER for $NIC"
  busybox reboot -f
}

if [[ -n $NIC ]]; then
  set_up_nic
else
  set_up_rxe
fi
touch /host/ready

mkfifo /run/tick
exec 9<>/run/tick  # read -t on it sleeps without a process
next=1
until [[ -e /host/poweroff ]]; do
  while [[ -e /host/run/$next.go ]]; do
    (
      cd /root || exit
      setsid bash "/host/run/$next.sh" </dev/null >"/host/run/$next.out" 2>&1
      echo $? >"/host/run/$next.status"
      mv "/host/run/$next.status" "/host/run/$next.rc"
    ) &
    next=$((next + 1))
  done
  read -rt 0.03 -u 9 _
done
busybox reboot -f
