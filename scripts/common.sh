# shellcheck shell=bash
# Sourced by the other scripts: strict mode, the root of the checkout as working directory, a few words, and the answer
# to --help.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export root
cd "$root"

# Debian's python: another one may come first in PATH and knows no pytest.
export python=/usr/bin/python3

say() { printf '== %s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# The comment at the top of the script.
usage() { sed -n -e '1d' -e '/^#/!q' -e 's/^# \{0,1\}//p' "$root/scripts/$(basename "$0")"; }
for word in "$@"; do
  if [[ $word == -h || $word == --help ]]; then
    usage
    exit 0
  fi
done
unset word
