#!/usr/bin/env bash
# lint_archive.sh [sanity]: builds the collection's archive, and has it checked as Galaxy does when it is uploaded
# (galaxy-importer, antsibull-docs), or by `ansible-test sanity`.
set -euo pipefail
cd "$(dirname "$0")/../.."
checkout=$PWD
export PATH=$checkout/.venv/bin:/usr/sbin:/usr/bin:/sbin:/bin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
collections=$scratch/collections/ansible_collections
own=$collections/vcrecovery/standby
export ANSIBLE_COLLECTIONS_PATH=$scratch/collections ANSIBLE_NOCOLOR=1

quietly() { # what a program prints is shown if it fails
  "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2 && return 1; }
}

quietly ansible-galaxy collection build --output-path "$scratch" .
archive=$(echo "$scratch"/vcrecovery-standby-*.tar.gz)
quietly ansible-galaxy collection install --no-deps --collections-path "$scratch/collections" "$archive"
for public in .ansible/collections/ansible_collections/*; do
  [[ $public == */vcrecovery ]] || ln -s "$checkout/$public" "$collections/"
done

galaxy() {
  # ansible-lint is run by `make lint-ansible`.
  printf '[galaxy-importer]\nrun_ansible_lint = False\n' >"$scratch/importer.cfg"
  (cd "$scratch" && GALAXY_IMPORTER_CONFIG=$scratch/importer.cfg quietly python -m galaxy_importer.main "$archive")
  if grep -E '^(WARNING|ERROR)' "$scratch/log"; then
    return 1
  fi
  # What our dependencies depend on in their turn is not installed, and their documentation is not what is checked.
  sed -i '/"dependencies": {/,/}/c\  "dependencies": {},' "$own/MANIFEST.json"
  antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck --validate-collection-refs self "$own"
}

sanity() {
  # It makes environments of its own, which are kept. Their pip comes from a site that needs not be reachable; Python has one.
  export HOME=$checkout/.cache/ansible-test
  local bootstrap=$HOME/.ansible/test/cache/get_pip_24_2.py
  mkdir -p "${bootstrap%/*}"
  cat >"$bootstrap" <<'PY'
import ensurepip, subprocess, sys
ensurepip.bootstrap()
words = [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", *words]))
PY
  # controller/ is a Python project with linters of its own: `make lint-python`.
  if ! (cd "$own" && ansible-test sanity --local --python 3.11 --color no --exclude controller/) >"$scratch/log" 2>&1; then
    grep -E '^(ERROR|FATAL|>>>)' "$scratch/log" || tail -n 20 "$scratch/log"
    return 1
  fi
}

case ${1:-galaxy} in
galaxy) galaxy ;;
sanity) sanity ;;
*) echo "lint_archive.sh [sanity]" >&2 && exit 2 ;;
esac
