#!/bin/sh
# Installs what this project needs and nothing twice: Redis, and the packages of package-lock.json.
# Debian and its relatives (as root or by sudo) and macOS with Homebrew; elsewhere it says what is missing.
# With the argument `browser` also what only tests need: a Chromium, for the dashboard, and promtool, for the alerts.
set -eu
cd "$(dirname "$0")/.."

NODE_MIN=20
REDIS_MIN=7

main() {
  check_node
  has redis-server || has valkey-server || need redis-server redis-server redis
  check_redis
  [ "${1:-}" != browser ] || { need_browser && want_promtool; }
  install_packages
}

say() { echo "setup: $*"; }
die() {
  echo "setup: $*" >&2
  exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

check_node() {
  has node || die "Node $NODE_MIN or later is needed, and no node is on the PATH."
  found=$(node -p process.versions.node)
  [ "${found%%.*}" -ge "$NODE_MIN" ] || die "Node $NODE_MIN or later is needed; this is $found."
}

# need COMMAND DEBIAN_PACKAGE BREW_FORMULA: installs the package where the command is missing.
need() {
  has "$1" && return
  if has apt-get; then
    say "$1 is missing: installing Debian's package $2"
    apt_install "$2"
  elif has brew; then
    say "$1 is missing: running brew install $3"
    brew install "$3"
  else
    die "$1 is missing, and neither apt-get nor brew is here to install it."
  fi
  has "$1" || die "$2 is installed, but $1 is still not on the PATH."
}

# CHROMIUM names one that lies elsewhere; a Chrome does too.
need_browser() {
  if [ -n "${CHROMIUM:-}" ] || has chromium || has google-chrome || [ -d '/Applications/Google Chrome.app' ]; then return; fi
  if has brew; then
    say 'no Chromium or Chrome: running brew install --cask google-chrome'
    brew install --cask google-chrome
  else
    need chromium chromium chromium
  fi
}

# Out of Debian's package, which is not installed: nobody asked for a Prometheus. Without it the tests go on, and check the rules less.
want_promtool() {
  if has promtool || [ -x .make/promtool ] || ! has apt-get || ! has dpkg-deb; then return 0; fi
  say "promtool is missing: taking it from Debian's package prometheus"
  mkdir -p .make/prometheus
  if ! (cd .make/prometheus && download prometheus && dpkg-deb -x prometheus_*.deb . && mv usr/bin/promtool ..); then
    say 'there is no promtool: the alerts are tested without it'
  fi
  rm -rf .make/prometheus
}

download() {
  apt-get download -q "$1" && return
  [ "$(id -u)" -eq 0 ] && apt-get update -q && apt-get download -q "$1"
}

# Without starting the service that a package brings: RUNLEVEL=1 tells sysvinit, the mask tells systemd.
apt_install() {
  root=
  if [ "$(id -u)" -ne 0 ]; then
    has sudo || die "installing $1 needs root or sudo."
    root=sudo
  fi
  systemd=
  if [ -d /run/systemd/system ] && [ "$1" = redis-server ]; then systemd=yes; fi
  if [ -n "$systemd" ]; then $root systemctl mask --quiet "$1" || true; fi
  $root apt-get update -q || say 'apt-get update failed; trying with the lists that are here'
  $root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -q --no-install-recommends "$1"
  if [ -n "$systemd" ]; then
    $root systemctl unmask --quiet "$1" || true
    $root systemctl disable --quiet "$1" || true
  fi
}

# Valkey began at 7.2.4, so any version of it will do.
check_redis() {
  has redis-server || return 0
  found=$(redis-server --version | sed -n 's/.*v=\([0-9.]*\).*/\1/p')
  [ "${found%%.*}" -ge "$REDIS_MIN" ] 2>/dev/null || die "Redis $REDIS_MIN or later is needed; this is ${found:-unknown}."
}

# The stamp holds what was installed, so a checkout that only touches files installs nothing.
# A linked directory belongs to another checkout: npm would empty it.
install_packages() {
  [ -L node_modules ] && return
  stamp=.make/packages
  wanted="$(cksum <package-lock.json) node $(node -p process.versions.modules)"
  [ -d node_modules ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return
  say 'installing the packages of package-lock.json'
  npm ci --ignore-scripts --no-audit --no-fund
  mkdir -p .make
  echo "$wanted" >"$stamp"
}

main "$@"
