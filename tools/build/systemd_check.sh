#!/usr/bin/env bash
# Boots the systemd of a chroot in namespaces of its own, and runs the services of the packages
# there as docs/services.md says.
#
# usage: systemd_check.sh ROOT
#
# ROOT is a Debian with systemd, iproute2 and the packages installed, which /root/later holds as a
# later version. Exits with 77 if this host does not let a systemd boot there. Needs root.
set -euo pipefail

readonly ROOT=$1
readonly CHECK=systemd-check
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cgroups=$(mktemp -d)
log=$(mktemp)
readonly HERE cgroups log
readonly CGROUP=$cgroups/pollux-systemd-check-$$
readonly NAMESPACES=(--pid --fork --kill-child --mount --net --uts --ipc --cgroup)
container=""

clean_up() {
  if [[ -n $container ]]; then
    kill -KILL "$container" 2>/dev/null || true
    wait "$container" 2>/dev/null || true
  fi
  if mountpoint -q "$cgroups"; then
    for _ in {1..50}; do
      [[ -d $CGROUP ]] || break
      find "$CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
    done
    umount "$cgroups"
  fi
  rmdir "$cgroups"
  rm "$log"
}
trap clean_up EXIT

skip() {
  echo "$CHECK: skipped: $1" >&2
  exit 77
}
mount -t cgroup2 cgroup2 "$cgroups" || skip "this host does not let cgroup2 be mounted"
mkdir "$CGROUP" || skip "this host does not let a control group be made"
unshare "${NAMESPACES[@]}" true || skip "this host does not let namespaces be made"

# Runs in the namespaces. What the host has in /proc/sys and /sys stays as it is.
boot() {
  local point device
  for point in dev sys proc; do
    ! mountpoint -q "$1/$point" || umount -R "$1/$point"
  done
  mount --bind "$1" "$1"
  mount -t proc proc "$1/proc"
  mount --bind "$1/proc/sys" "$1/proc/sys"
  mount -o remount,bind,ro "$1/proc/sys"
  mount -t sysfs -o ro sys "$1/sys"
  mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
  mount -t tmpfs -o mode=755 run "$1/run"
  mount -t tmpfs -o mode=755 dev "$1/dev"
  mkdir "$1/dev/net" "$1/dev/pts" "$1/dev/shm"
  for device in null zero full random urandom tty net/tun; do
    [[ -e /dev/$device ]] || continue
    touch "$1/dev/$device"
    mount --bind "/dev/$device" "$1/dev/$device"
  done
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
  mount -t tmpfs -o mode=1777 shm "$1/dev/shm"
  ln -s pts/ptmx "$1/dev/ptmx"
  ln -s /proc/self/fd "$1/dev/fd"
  ip link set lo up
  cd "$1"
  pivot_root . .
  umount -l .
  # Without apt's timers, and without a service that reads the host's disks.
  exec env -i container=pollux PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd \
    systemd.mask=timers.target systemd.mask=e2scrub_reap.service
}

# Runs commands of bash beside the services.
inside() {
  nsenter --target "$(pgrep -P "$container")" --all --root --wd -- env -i HOME=/root \
    LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -c "set -euo pipefail
      client() { ip netns exec client \"\$@\"; }
      fails() { ! \"\$@\"; }
      property() { systemctl show --property=\"\$2\" --value \"\$1\"; }
      within_30s() {
        for _ in {1..300}; do ! eval \"\$1\" || return 0; sleep 0.1; done
        echo \"still false after 30 s: \$1\" >&2
        return 1
      }
      $1" </dev/null
}

fail() {
  cat "$log" >&2
  inside "systemctl --no-pager status 'pollux-*' || true
    systemctl --no-pager --failed
    journalctl --no-pager --lines=60" >&2 || true
  echo "$CHECK: failed: $1" >&2
  exit 1
}

step() {
  echo "$CHECK: $1" >&2
  inside "$2" >"$log" 2>&1 || fail "$1"
}

# kills_and_stops UNIT USE: USE is a command that uses the service.
kills_and_stops() {
  local unit=$1 use=$2
  step "$1 comes back when it is killed" "
    systemctl kill --signal=KILL --kill-who=main $unit
    within_30s '[[ \$(property $unit NRestarts) == 1 ]] && systemctl --quiet is-active $unit'
    $use"
  # The service sends three heartbeats in the time that it is given.
  step "$1 comes back when it hangs" "
    mkdir /run/systemd/system/$unit.d
    printf '[Service]\nWatchdogSec=10\n' >/run/systemd/system/$unit.d/watchdog.conf
    systemctl daemon-reload
    systemctl restart $unit
    sleep 12
    [[ \$(property $unit NRestarts) == 0 ]]
    kill -STOP \$(property $unit MainPID)
    within_30s '[[ \$(property $unit NRestarts) == 1 ]] && systemctl --quiet is-active $unit'
    journalctl --unit=$unit --grep='Watchdog timeout' >/dev/null
    rm -r /run/systemd/system/$unit.d
    systemctl daemon-reload
    systemctl restart $unit
    $use"
  step "$1 stops in time" "
    systemctl stop $unit
    [[ \$(property $unit Result) == success && \$(property $unit ExecMainStatus) == 0 ]]
    fails systemctl --quiet is-active $unit"
  step "$1 logs a line for each event" "
    journalctl --sync
    entries=\$(journalctl --unit=$unit --identifier=pollux --output=json | wc -l)
    ((entries > 0))
    [[ \$(journalctl --unit=$unit --identifier=pollux --output=cat | wc -l) == \$entries ]]"
}

(
  echo "$BASHPID" >"$CGROUP/cgroup.procs"
  # shellcheck disable=SC2016
  exec unshare "${NAMESPACES[@]}" bash -euc "$(declare -f boot)"'; boot "$1"' boot "$ROOT"
) </dev/null &
container=$!
for _ in {1..60}; do
  sleep 1
  kill -0 "$container" 2>/dev/null || break
  state=$(inside "systemctl is-system-running" 2>/dev/null) || true
  [[ $state != running && $state != degraded ]] || break
done
[[ ${state:-} == running ]] || fail "systemd does not start: ${state:-it has ended}"

readonly NFSD=pollux-nfsd@eth0.service SERVE=pollux-serve@eth0.service
step "make a network" "
  ip netns add client
  ip link add eth0 type veth peer name eth0 netns client
  ip addr add 192.0.2.1/24 dev eth0
  ip link set eth0 up
  ip -n client addr add 192.0.2.2/24 dev eth0
  ip -n client link set eth0 up
  mkdir -p /srv /srv2
  chmod 1777 /srv
  echo Pollux >/root/file"

# shellcheck disable=SC2016
step "run the commands of docs/services.md" \
  "$(sed -n '/^```text$/,/^```$/{/^```/d;p}' "$HERE/../../docs/services.md")"
readonly NFS="client pollux nfs" URL="--netdev eth0 nfs://192.0.2.1"
step "use $NFSD" "
  systemctl --quiet is-active $NFSD
  systemctl --quiet is-enabled $NFSD
  $NFS put --netdev eth0 /root/file nfs://192.0.2.1/srv/file
  $NFS get $URL/srv/file /root/copy
  cmp /root/file /root/copy
  [[ \$($NFS ls $URL/srv) == *file ]]"
step "reload $NFSD" "
  client pollux ping --netdev eth0 --program 100003 --version 3 -i 0.05 -w 600 192.0.2.1 \
    >/root/ping &
  ping=\$!
  within_30s '[[ -s /root/ping ]]'
  echo '/srv2 *(ro)' >>/etc/exports
  systemctl reload $NFSD
  $NFS ls $URL/srv2
  sed -i '/srv2/d' /etc/exports
  systemctl reload $NFSD
  fails $NFS ls $URL/srv2
  cp /etc/exports /root/exports
  echo nonsense >>/etc/exports
  systemctl reload $NFSD
  mv /root/exports /etc/exports
  $NFS ls $URL/srv
  journalctl --sync
  [[ \$(journalctl --unit=$NFSD --priority=err --output=cat) == *'SIGHUP: nothing changed'* ]]
  # It would have ended with its connection. Its last call may be unanswered.
  pkill -x -f 'pollux ping .*'
  wait \$ping
  read -r sent _ _ answered _ < <(grep ' answered, ' /root/ping)
  ((sent > 1 && sent - answered <= 1))"
kills_and_stops "$NFSD" "$NFS ls $URL/srv"

readonly SERVE_OPTIONS="--netdev eth0 --service-port 20050"
readonly AT="--netdev eth0 --service-port 20050 192.0.2.1"
step "use $SERVE" "
  echo 'OPTIONS=$SERVE_OPTIONS' >/etc/default/pollux-serve-eth0
  systemctl start $SERVE
  systemctl --quiet is-active $SERVE
  client pollux put $AT /root/file
  client pollux get $AT file /root/copy
  cmp /root/file /root/copy
  [[ \$(client pollux ls $AT) == *file ]]
  # CAP_NET_ADMIN and CAP_NET_RAW
  grep -q '^CapEff:.0000000000003000\$' /proc/\$(property $SERVE MainPID)/status
  [[ \$(stat -c %U /proc/\$(property $SERVE MainPID)) != root ]]
  RUNTIME_DIRECTORY=/run/pollux-serve-eth0 pollux stat | grep -q 'sent_pkts'"
kills_and_stops "$SERVE" "client pollux ls $AT"

step "an upgrade restarts the services" "
  systemctl start $NFSD $SERVE
  nfsd=\$(property $NFSD MainPID) serve=\$(property $SERVE MainPID)
  dpkg -i /root/later/*.deb >/dev/null
  systemctl is-active $NFSD $SERVE
  [[ \$(property $NFSD MainPID) != \$nfsd && \$(property $SERVE MainPID) != \$serve ]]"
step "the removal stops the services" "
  dpkg -P pollux >/dev/null
  [[ -z \$(systemctl list-units --plain --no-legend --state=active 'pollux-*.service') ]]
  fails pgrep -x pollux"
echo "$CHECK: passed"
