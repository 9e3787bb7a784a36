#!/bin/busybox sh
# First process of the guest: finds the root file system, lays memory over it, mounts the folder
# shared with the host.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t devtmpfs dev /dev
while read -r module; do $b insmod "/modules/$module"; done </modules/order
tries=0
until [ -b /dev/vda ]; do
  $b usleep 10000
  tries=$((tries + 1))
  if [ "$tries" -gt 1000 ]; then
    echo "no disk"
    $b reboot -f
  fi
done
$b mount -t squashfs -o ro /dev/vda /lower
$b mount -t tmpfs memory /upper
$b mkdir /upper/files /upper/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work root /new
$b mount -t 9p -o trans=virtio,version=9p2000.L,cache=none,msize=131072 host /new/host || {
  echo "the shared folder cannot be mounted"
  $b reboot -f
}
$b mount --move /dev /new/dev
$b mount --move /proc /new/proc
# From the shared folder, so that a changed init needs no new image.
exec $b switch_root /new /bin/bash /host/init
