# Shared by quickstart and check: system packages, the virtual environment, the build.
# Sourced, not run. Everything here is idempotent, and quick when there is nothing to do.
# shellcheck shell=bash disable=SC2034

# What the main job needs. libdpdk-dev brings every DPDK driver along.
RUN_PACKAGES=(
  build-essential pkg-config python3-venv python3-dev zlib1g-dev libdpdk-dev liburing-dev
  openvswitch-switch-dpdk lxc busybox-static iproute2
)

# What the image of the bench needs (Containerfile): to build it, and to run. Contenders that
# need namespaces of their own (LXC) are of no use in a container.
IMAGE_BUILD_PACKAGES=(
  build-essential pkg-config python3-venv python3-dev zlib1g-dev libdpdk-dev liburing-dev
)
IMAGE_PACKAGES=(
  python3 iproute2 procps libnuma1 libbsd0 zlib1g openvswitch-switch-dpdk dpdk-dev
)

# By this file of Debian's no package starts a service; ours is known by what it says.
POLICY=/usr/sbin/policy-rc.d
SERVICES_STAY_OFF='#!/bin/sh
# while switchmark installs packages
exit 101'

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$1" >&2; exit "${2:-1}"; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      printf '%s\n' "$package"
  done
}

# install_packages ASSUME_YES PACKAGE...: asks once, names what it will install.
# Services that packages would start (openvswitch, lxc-net) stay off: the bench starts its own
# private instances, and a machine's network must not change because a bench was installed.
install_packages() {
  local assume_yes=$1 missing answer
  shift
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null ||
    die "needs Debian 12 or Ubuntu 22.04/24.04 (no apt-get here); install by hand: ${missing[*]}" 3
  say "system packages to install: ${missing[*]}"
  if [ "$assume_yes" != yes ]; then
    [ -t 0 ] || die "packages are missing and nobody is there to ask; run again with --yes" 2
    read -r -p "    Install them with apt-get now? [Y/n] " answer
    case "$answer" in '' | [Yy]*) ;; *) die "nothing was installed" 2 ;; esac
  fi
  (
    # One of a run that was killed goes, too; one of the machine's own stays as it is.
    if [ ! -e "$POLICY" ] || [ "$(cat "$POLICY")" = "$SERVICES_STAY_OFF" ]; then
      trap 'as_root rm -f "$POLICY"' EXIT # after Ctrl-C, too
      printf '%s\n' "$SERVICES_STAY_OFF" | as_root tee "$POLICY" >/dev/null
      as_root chmod +x "$POLICY"
    fi
    as_root apt-get update -qq &&
      as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" >/dev/null
  ) || die "apt-get failed (its messages are above)"
}

find_python() {
  local candidate
  for candidate in /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
      2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

# Ubuntu 22.04's own python3 is 3.10; its archive has 3.11 beside it.
ensure_python() {
  find_python >/dev/null || install_packages "$1" python3.11 python3.11-venv python3.11-dev
  find_python >/dev/null || die "needs Python 3.11 or newer with venv" 3
}

# What a build depends on: when this is unchanged, so is the result.
source_stamp() {
  { cat "$1" pyproject.toml meson.build meson_options.txt 2>/dev/null
    find engine switchmark -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 cat
    pkg-config --modversion libdpdk 2>/dev/null
  } | sha256sum | cut -d' ' -f1
}

# setup_venv LOCK [meson option...]: .venv with locked dependencies, our package and engine.
setup_venv() {
  local lock=$1 python stamp deps
  shift
  stamp=$(source_stamp "$lock")
  deps=$(sha256sum <"$lock" | cut -d' ' -f1)
  if [ "$(cat .venv/.stamp 2>/dev/null)" = "$stamp" ]; then return 0; fi
  python=$(find_python)
  rm -f .venv/.stamp # nothing is ready before it is: this may be ended on the way
  .venv/bin/python -m pip --version >/dev/null 2>&1 ||
    "$python" -m venv --clear .venv || die "cannot make .venv"
  if [ "$(cat .venv/.deps 2>/dev/null)" != "$deps" ]; then
    say "installing locked Python dependencies into .venv"
    rm -f .venv/.deps
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-compile \
      --require-hashes -r "$lock" || die "pip could not install $lock (its messages are above)"
    # On all cores, which pip does not use. (A few modules, tests of libraries, cannot be compiled.)
    .venv/bin/python -m compileall -qq -j 0 .venv/lib || true
    printf '%s\n' "$deps" >.venv/.deps
  fi
  say "building the traffic engine and installing switchmark into .venv"
  local options=() option
  for option in "$@"; do options+=("--config-settings=setup-args=$option"); done
  PATH="$PWD/.venv/bin:$PATH" .venv/bin/python -m pip install -q --disable-pip-version-check \
    --no-deps --no-build-isolation --force-reinstall "${options[@]}" . ||
    die "the build failed (its messages are above)"
  printf '%s\n' "$stamp" >.venv/.stamp
}

# reserve_hugepages PAGES: at least this many free 2 MiB pages, said out loud.
reserve_hugepages() {
  local wanted=$1 folder=/sys/kernel/mm/hugepages/hugepages-2048kB free total now
  [ -d "$folder" ] || { say "this kernel has no 2 MiB hugepages: DPDK switches cannot run"; return 0; }
  free=$(cat $folder/free_hugepages)
  total=$(cat $folder/nr_hugepages)
  [ "$free" -lt "$wanted" ] || return 0
  now=$((total + wanted - free))
  say "reserving hugepages: $total -> $now of 2 MiB (undo: echo $total > $folder/nr_hugepages)"
  echo "$now" | as_root tee $folder/nr_hugepages >/dev/null
  free=$(cat $folder/free_hugepages)
  [ "$free" -ge "$wanted" ] ||
    say "only $free of $wanted pages could be had: DPDK switches may be unavailable"
}
