#!/bin/bash
# Process 1 of a lab: mounts what the lab sees, starts the containers that are the hosts, and lives until standard input closes.
# Usage: namespace.sh STATE BASE HOST=HARDWARE-ADDRESS..., in fresh mount, pid, network, uts, ipc and cgroup namespaces.
#
# All that happens in here ends with this process, because the kernel kills a pid namespace with its process 1. None of the
# machine's own processes is visible, so that a role which kills too much cannot touch them.
set -euo pipefail
state=$1
base=$2
shift 2

mount -t proc proc /proc
umount --recursive --lazy /sys 2>/dev/null || true
mount -t sysfs sysfs /sys
# Version 2 alone, as on Proxmox 7 and later; whatever else the machine has stays outside.
mount -t cgroup2 cgroup2 /sys/fs/cgroup

# Everything the lab writes is in memory and goes with the mount namespace.
memory=$state/memory
mkdir -p "$memory"
mount -t tmpfs -o size=4g,mode=755 tmpfs "$memory"
mkdir -p "$memory/lxc"
mount --bind "$memory/lxc" /var/lib/lxc
mount -t tmpfs tmpfs /run

hostname lab
ip link set lo up
ip link add vmbr0 type bridge
ip address add 10.129.0.1/24 dev vmbr0
ip link set vmbr0 up

start_host() {
  local name=$1 hardware=$2 container=/var/lib/lxc/$1
  mkdir -p "$container/rootfs" "$memory/$name/upper" "$memory/$name/work"
  mount -t overlay overlay -o "lowerdir=$state/layers/$name:$base,upperdir=$memory/$name/upper,workdir=$memory/$name/work,xino=off" "$container/rootfs"
  mkdir -p "$container/rootfs/lab/base" "$container/rootfs/lab/layers"

  cat >"$container/config" <<CONFIG
lxc.rootfs.path = dir:$container/rootfs
lxc.uts.name = $name
lxc.apparmor.profile = unconfined
lxc.init.cmd = /sbin/init
lxc.tty.max = 0
lxc.pty.max = 256
lxc.mount.auto = proc:rw sys:rw cgroup:rw:force
lxc.mount.entry = $base lab/base none bind,ro 0 0
lxc.mount.entry = $state/layers lab/layers none bind,ro 0 0
lxc.mount.entry = tmpfs var/lib/lxc tmpfs rw,mode=755,create=dir 0 0
lxc.mount.entry = tmpfs var/lib/vz tmpfs rw,mode=755,create=dir 0 0
lxc.mount.entry = tmpfs var/lib/simulated-gpu tmpfs rw,mode=755,create=dir 0 0
lxc.cgroup.relative = 0
lxc.cgroup.dir.container = $name
lxc.cgroup.dir.monitor = $name.monitor
lxc.net.0.type = veth
lxc.net.0.link = vmbr0
lxc.net.0.flags = up
lxc.net.0.name = eno1
lxc.net.0.hwaddr = $hardware
lxc.net.0.veth.pair = tap-$name
CONFIG
  if ! lxc-start --name "$name" --logpriority INFO --logfile "$state/$name.log" --console-log "$state/$name.console"; then
    tail -n 20 "$state/$name.log" >&2
    exit 1
  fi
}

for host in "$@"; do
  start_host "${host%%=*}" "${host#*=}"
done
touch "$state/ready"

# The lifetime pipe: it reports its end when the process that holds the lab is gone, however it went.
cat >/dev/null
