# shellcheck shell=bash
# own_host MODULE ARGUMENT...: run a Python module of the tests as root in a separate host: namespaces of
# network, mounts, processes, names and shared memory, with empty /run, /tmp and /dev/shm. Other programs
# and this host do not disturb each other, and everything that remains in it can be found.
PYTHON=${PYTHON:-$PWD/.venv/bin/python}
export PYTHON PYTHONPATH="$PWD"
unset PYTHONDONTWRITEBYTECODE # a compiled bench starts in two thirds of the time
export SWITCHMARK_TRAFFIC="${SWITCHMARK_TRAFFIC:-$PWD/.venv/bin/switchmark-traffic}"

# shellcheck disable=SC2016 # (expanded by the inner shell)
own_host_setup='
aside=$(mktemp -d /var/tmp/own-host-XXXXXX)
mount --rbind /sys/fs/cgroup "$aside"
mount -t sysfs own /sys
mount --rbind "$aside" /sys/fs/cgroup
umount -l "$aside"; rmdir "$aside"
for folder in /run /tmp /var/tmp /dev/shm; do
  # The checkout and its programs stay in place; the rest of the folder is hidden.
  kept=()
  for path in "$PWD" "${PYTHON%/*/*}" "$(realpath "${PYTHON%/*/*}")" "${SWITCHMARK_TRAFFIC%/*}" \
    "${SWITCHMARK_QEMU%/*/*}" "${SWITCHMARK_VM_TRAFFIC%/*}" "$SWITCHMARK_VM_KERNEL"; do
    case "$path" in "$folder"/*) kept+=("$path"); exec {fd}<"$path"; kept+=("$fd") ;; esac
  done
  mount -t tmpfs -o mode=1777 own "$folder"
  for ((at = 0; at < ${#kept[@]}; at += 2)); do
    mkdir -p "${kept[at]}"
    fd=${kept[at + 1]}
    mount --no-canonicalize --bind "/proc/self/fd/$fd" "${kept[at]}"
    exec {fd}<&-
  done
done
cd "$PWD"
chmod 755 /run
[ ! -d /dev/hugepages ] || mount -t hugetlbfs own /dev/hugepages
mkdir -p /run/lock
ip netns add first && ip netns delete first # from here on, the mounts of ip exist
hostname own-host
ip link set lo up
"$PYTHON" -m "$@"
exit $?'

own_host() {
  unshare --net --mount --pid --ipc --uts --fork --propagation private mount -t tmpfs none /proc 2>/dev/null ||
    { echo "$0: needs namespaces as root makes them (sudo)" >&2; exit 3; }
  exec unshare --net --mount --pid --ipc --uts --fork --kill-child --mount-proc \
    --propagation private bash -ec "$own_host_setup" own-host "$@"
}
