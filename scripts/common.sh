# shellcheck shell=bash
# Sourced by the other scripts: strict mode, the root of the checkout as working directory, and a few words.
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
