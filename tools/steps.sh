# Steps that ./check and ./dev share. Each function returns 0 if the step passed.
# Source tools/setup.sh first.
# shellcheck shell=bash

python=.venv/bin/python

# leave_out PART REASON: print that a part is left out. ./check repeats the list at its end.
left_out=${left_out:-/dev/null}
leave_out() {
  say "left out: $1 ($2)"
  printf '%s\t%s\n' "$1" "$2" >>"$left_out"
}

# needs PROGRAM PART: return 0 if the program is installed; otherwise leave the part out.
needs() {
  if command -v "$1" >/dev/null; then return 0; fi
  leave_out "$2" "no program $1"
  return 1
}

c_format() {
  needs clang-format "C format" || return 0
  find engine -name '*.[ch]' -print0 | xargs -0 clang-format --dry-run -Werror
}

# Print the shell scripts of the repository: the files with a shebang of a shell, and those that are sourced.
shell_scripts() {
  local file first
  for file in check dev quickstart .ci/run tools/*; do
    [ -f "$file" ] || continue
    case "$file" in *.sh) printf '%s\n' "$file"; continue ;; esac
    IFS= read -r first <"$file" 2>/dev/null || continue
    case "$first" in '#!'*sh) printf '%s\n' "$file" ;; esac
  done
}

shell_lint() {
  local files
  needs shellcheck "shell lint" || return 0
  mapfile -t files < <(shell_scripts)
  shellcheck -x "${files[@]}"
}

python_lint() {
  $python -m ruff check . tools/docs tools/twice tools/words &&
    $python -m ruff format --check . tools/docs tools/twice tools/words && .venv/bin/lint-imports
}

# Check the rules of CONTRIBUTING.md that a program can check, and the spelling.
plain_words() { $python tools/words "$@" && .venv/bin/codespell "$@"; }

# types_of PATH...: mypy. Tests may import a name from each module that uses it, in order to replace it.
types_of() {
  case "$1" in
    tests*) $python -m mypy --implicit-reexport --cache-dir .mypy_cache/tests "$@" ;;
    *) $python -m mypy "$@" ;;
  esac
}
python_types() {
  if [ $# -gt 0 ]; then
    types_of "$@"
    return
  fi
  types_of switchmark && types_of tests && $python -m mypy --scripts-are-modules tools/words &&
    MYPYPATH=bench/engine $python -m mypy --scripts-are-modules bench/engine/*.py bench/deploy.py bench/cost bench/search bench/search-real bench/store &&
    MYPYPATH=bench $python -m mypy --scripts-are-modules bench/proof bench/series bench/places bench/pages bench/places_side.py bench/pairs.py bench/ways.py bench/designs.py bench/series_file.py
}

# Build the engine and its C tests with the address and undefined-behaviour sanitizers. If clang has
# a fuzzer runtime, the fuzz targets are built from the same objects. Without cmocka, only the C tests
# are left out.
sanitized=build-fuzz
sanitized_build() {
  local status=0 tests=enabled
  export PATH="$PWD/.venv/bin:$PATH"
  pkg-config --exists cmocka || tests=disabled
  tools/fuzz --setup || status=$?
  if [ "$status" = 3 ]; then
    sanitized=build-asan status=0
    [ -d build-asan ] || meson setup build-asan -Dbuildtype=debugoptimized \
      -Db_sanitize=address,undefined -Db_lundef=false || status=$?
  fi
  [ "$status" = 0 ] && meson configure "$sanitized" -Dwerror=true "-Dtests=$tests" && meson compile -C "$sanitized"
}
c_tests() {
  if ! pkg-config --exists cmocka; then
    leave_out "C unit tests" "no libcmocka-dev"
    return 0
  fi
  .venv/bin/meson test -C "$sanitized" --no-rebuild --print-errorlogs "$@"
}
