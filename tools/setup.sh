# Shared by quickstart, check and dev: system packages, the virtual environment, the build.
# Source this file. All functions are idempotent, and fast if there is nothing to do.
# shellcheck shell=bash disable=SC2034

# The build needs all of these.
BUILD_PACKAGES=(build-essential pkg-config python3-venv python3-dev zlib1g-dev)
# Measurements also use these. If one is missing, the part that needs it is left out and named.
# libdpdk-dev contains all drivers of DPDK.
RUN_PACKAGES=(
  libdpdk-dev liburing-dev openvswitch-switch-dpdk lxc busybox-static iproute2
)

# The image of the bench (Containerfile) needs these packages for its build and at run time. LXC cannot
# be used in a container, because it makes namespaces.
IMAGE_BUILD_PACKAGES=(
  build-essential pkg-config python3-venv python3-dev zlib1g-dev libdpdk-dev liburing-dev
)
IMAGE_PACKAGES=(
  python3 iproute2 procps libnuma1 libbsd0 zlib1g openvswitch-switch-dpdk dpdk-dev
)

# While this file of Debian exists, no package starts a service. Its text distinguishes our file.
POLICY=/usr/sbin/policy-rc.d
SERVICES_STAY_OFF='#!/bin/sh
# while switchmark installs packages
exit 101'

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$1" >&2; exit "${2:-1}"; }

missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      printf '%s\n' "$package"
  done
}

# Try to write: root of a container may not have this permission.
DPKG_FOLDER=/var/lib/dpkg
may_install() { command -v apt-get >/dev/null && [ -w "$DPKG_FOLDER" ]; }

# Return 0 if a C compiler and zlib are installed, on systems without dpkg.
can_build() { command -v pkg-config >/dev/null && echo '#include <zlib.h>' | cc -E - >/dev/null 2>&1; }

# administrator PACKAGE...: print the command that installs the packages, for a message.
administrator() { printf 'an administrator installs them with: sudo apt-get install -y %s' "$*"; }

# install_packages ASSUME_YES REQUIRED... [-- OPTIONAL...]: list the missing packages, ask once, and
# install them. Optional packages that cannot be installed are named and left out. This function never
# calls sudo. If the user may not install packages, it prints the command for an administrator.
install_packages() {
  local assume_yes=$1 answer required=() missing optional
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do required+=("$1"); shift; done
  [ $# = 0 ] || shift
  if ! command -v dpkg-query >/dev/null; then
    can_build || die "this system has no apt-get; install a C compiler, pkg-config, Python 3.11 \
with venv and the headers of zlib by hand (and of DPDK, for its switches)" 3
    return 0
  fi
  mapfile -t missing < <(missing_packages "${required[@]}" "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if may_install; then
    say "system packages to install: ${missing[*]}"
    if [ "$assume_yes" != yes ]; then
      [ -t 0 ] || die "packages are missing, and there is no terminal for a question; run again with --yes" 2
      read -r -p "    Install them with apt-get now? [Y/n] " answer
      case "$answer" in '' | [Yy]*) ;; *) die "nothing was installed" 2 ;; esac
    fi
    apt_install "${missing[@]}"
  fi
  mapfile -t missing < <(missing_packages "${required[@]}")
  mapfile -t optional < <(missing_packages "$@")
  if [ ${#missing[@]} -gt 0 ]; then
    may_install && die "apt-get could not install ${missing[*]} (its messages are above); without \
a network, use an image that has them" 3
    die "packages are missing: ${missing[*]}; $(administrator "${missing[@]}" "${optional[@]}")" 3
  fi
  if [ ${#optional[@]} -gt 0 ]; then
    say "left out, because these packages are not installed: ${optional[*]}"
    may_install || say "$(administrator "${optional[@]}")"
  fi
}

# apt_install PACKAGE...: install the packages that apt-get has. Services of these packages, for example
# openvswitch and lxc-net, stay off: the bench starts private instances, and an installation must not
# change the network of the machine.
apt_install() (
  # A policy that a killed run left is also removed. A policy of the machine stays.
  if [ ! -e "$POLICY" ] || [ "$(cat "$POLICY")" = "$SERVICES_STAY_OFF" ]; then
    trap 'rm -f "$POLICY"' EXIT # also after Ctrl-C
    printf '%s\n' "$SERVICES_STAY_OFF" >"$POLICY"
    chmod 755 "$POLICY"
  fi
  get() {
    env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  }
  apt-get update -qq || true # the present lists may be sufficient
  if ! get "$@"; then
    had=()
    for package in "$@"; do
      if apt-cache show "$package" >/dev/null 2>&1; then had+=("$package"); fi
    done
    [ ${#had[@]} = 0 ] || [ ${#had[@]} = $# ] || get "${had[@]}" || true
  fi
)

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

# python3 of Ubuntu 22.04 is 3.10, but its archive also has 3.11.
ensure_python() {
  find_python >/dev/null || install_packages "$1" python3.11 python3.11-venv python3.11-dev
  find_python >/dev/null || die "needs Python 3.11 or newer with venv" 3
}

# Print a hash of everything that the build of the engine depends on. Python files are not part of it:
# .venv imports the package from the checkout.
source_stamp() {
  { cat "$1" pyproject.toml meson.build meson_options.txt switchmark/engine/events.schema.json 2>/dev/null || true
    find engine -type f -print0 | LC_ALL=C sort -z | xargs -0 cat
    pkg-config --modversion libdpdk 2>/dev/null || true
  } | sha256sum | cut -d' ' -f1
}

# Replace the installed copy of the package by a link to the checkout, so that a change of a Python
# file needs no second installation.
link_package() {
  local site
  for site in .venv/lib/python3*/site-packages; do
    [ -d "$site" ] || continue
    rm -rf "$site/switchmark"
    printf '%s\n' "$PWD" >"$site/switchmark.pth"
  done
}

# setup_venv LOCK [meson option...]: create .venv with the locked dependencies, the package and the
# engine. Meson keeps its objects in build-venv, and compiles only the C files that changed.
setup_venv() {
  local lock=$1 python stamp deps
  shift
  stamp=$(source_stamp "$lock")
  deps=$(sha256sum <"$lock" | cut -d' ' -f1)
  if [ "$(cat .venv/.stamp 2>/dev/null)" = "$stamp" ]; then return 0; fi
  python=$(find_python)
  rm -f .venv/.stamp # the set-up may be interrupted; it is complete when this file exists again
  .venv/bin/python -m pip --version >/dev/null 2>&1 ||
    "$python" -m venv --clear .venv || die "cannot create .venv"
  if [ "$(cat .venv/.deps 2>/dev/null)" != "$deps" ]; then
    say "installing locked Python dependencies into .venv"
    rm -f .venv/.deps
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-compile \
      --require-hashes -r "$lock" || die "pip could not install $lock (its messages are above)"
    # Compile on all cores, which pip does not do. A few modules of libraries cannot be compiled.
    .venv/bin/python -m compileall -qq -j 0 .venv/lib || true
    printf '%s\n' "$deps" >.venv/.deps
  fi
  say "building the traffic engine and installing it into .venv"
  local options=("--config-settings=build-dir=build-venv") option
  for option in "$@"; do options+=("--config-settings=setup-args=$option"); done
  PATH="$PWD/.venv/bin:$PATH" .venv/bin/python -m pip install -q --disable-pip-version-check \
    --no-deps --no-build-isolation --force-reinstall "${options[@]}" . ||
    die "the build failed (its messages are above)"
  link_package
  printf '%s\n' "$stamp" >.venv/.stamp
}

# reserve_hugepages PAGES: reserve pages of 2 MiB until at least this number is free, and print the
# change. If this is not possible, DPDK runs on pages of 4 KiB.
HUGEPAGES=/sys/kernel/mm/hugepages/hugepages-2048kB
reserve_hugepages() {
  local wanted=$1 free total now
  [ -d "$HUGEPAGES" ] || { say "this kernel has no 2 MiB hugepages: DPDK uses 4 KiB pages"; return 0; }
  free=$(cat "$HUGEPAGES/free_hugepages")
  total=$(cat "$HUGEPAGES/nr_hugepages")
  [ "$free" -lt "$wanted" ] || return 0
  now=$((total + wanted - free))
  if [ ! -w "$HUGEPAGES/nr_hugepages" ]; then
    say "$free of $wanted hugepages are free, and only an administrator can reserve more: \
echo $now | sudo tee $HUGEPAGES/nr_hugepages. Without them, DPDK uses 4 KiB pages."
    return 0
  fi
  say "reserving hugepages: $total -> $now of 2 MiB (undo: echo $total > $HUGEPAGES/nr_hugepages)"
  echo "$now" >"$HUGEPAGES/nr_hugepages" || true
  free=$(cat "$HUGEPAGES/free_hugepages")
  [ "$free" -ge "$wanted" ] ||
    say "only $free of $wanted hugepages could be reserved: DPDK may have to use 4 KiB pages"
}
