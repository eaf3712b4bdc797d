#!/bin/bash
# Runs the two commands of the README in a bare system, from a fresh clone, as an ordinary user and as root:
#   fresh.sh SUITE [--as user|root] [--run COMMAND]... [--copy PATH]... [--mirror URL] [--dir DIR] [--keep]
#
#   SUITE          bookworm, trixie, jammy, noble or another suite that debootstrap knows
#   --as WHO       only as `user` or only as `root`; by default both, the user first, while nothing is installed
#   --run COMMAND  instead of `make demo` and `make test`, in the clone; may be given several times
#   --copy PATH    copies a file or folder into the folder that has the clone; may be given several times
#   --mirror URL   where packages come from; otherwise $FRESH_MIRROR, otherwise the mirror of this machine where it has the same
#                  distribution, otherwise debootstrap's own
#   --dir DIR      creates the system in DIR, which must not exist; by default in a new directory of $TMPDIR
#   --keep         does not delete the system at the end
#
# The clone has what is committed here. An ordinary user cannot install packages; root installs those that the build names.
# Needs root, debootstrap and a mirror. Exit status 77 means that one of them is missing. Everything else that fails is 1.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)

usage() {
  sed -n '2,15s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
cannot() {
  echo "fresh.sh: $*" >&2
  exit 77
}

suite= mirror=${FRESH_MIRROR:-} system= keep= who="user root"
commands=() copies=()
while [ $# -gt 0 ]; do
  case $1 in
  --as) case ${2:-} in user | root) who=$2 ;; *) usage ;; esac; shift ;;
  --run) [ $# -gt 1 ] || usage; commands+=("$2"); shift ;;
  --copy) [ -e "${2:-}" ] || { echo "fresh.sh: there is no ${2:-file to copy}" >&2; exit 2; }; copies+=("$2"); shift ;;
  --mirror) [ $# -gt 1 ] || usage; mirror=$2; shift ;;
  --dir) [ $# -gt 1 ] || usage; system=$2; shift ;;
  --keep) keep=yes ;;
  -*) usage ;;
  *) [ -z "$suite" ] || usage; suite=$1 ;;
  esac
  shift
done
[ -n "$suite" ] || usage
[ ${#commands[@]} -gt 0 ] || commands=("make demo" "make test")

# --- inside: everything that is mounted, and every process, ends with these namespaces -------------------------------------

enter() { # enter root|user COMMAND: in the home directory
  local home=/root
  [ "$1" = root ] || home=/home/$1
  chroot --userspec="$1:$1" "$system" env -i HOME="$home" USER="$1" LANG=C.UTF-8 TERM=dumb \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin http_proxy="${http_proxy:-}" \
    bash -c "cd && $2"
}

# As the ordinary user: a command that asks for packages is run again when root has installed those.
as_user() {
  local asked=
  while :; do
    if enter user "cd crosshead && $1" 2>&1 | tee "$system/tmp/said"; then return 0; fi
    local ask
    ask=$(sed -n 's/^These Debian packages are missing; run: sudo //p' "$system/tmp/said" | tail -1)
    [ -n "$ask" ] && [ "$ask" != "$asked" ] || return 1
    asked=$ask
    echo "== root: $ask"
    enter root "DEBIAN_FRONTEND=noninteractive $ask" >"$system/tmp/installed" 2>&1 || { cat "$system/tmp/installed"; return 1; }
  done
}

if [ "${FRESH_INSIDE:-}" = yes ]; then
  mount -t proc proc "$system/proc"
  mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$system/dev/pts" 2>/dev/null || true # for the log of apt
  mkdir -p "$system/dev/shm" && mount -t tmpfs -o mode=1777 tmpfs "$system/dev/shm"
  enter root "apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q make" >"$system/tmp/installed" 2>&1 ||
    { cat "$system/tmp/installed"; exit 1; }
  for name in $who; do
    for command in "${commands[@]}"; do
      echo
      echo "== $suite, $name: $command"
      begin=$SECONDS status=0
      if [ "$name" = user ]; then as_user "$command" || status=$?; else enter root "cd crosshead && $command" 2>&1 || status=$?; fi
      [ "$status" = 0 ] || { echo "fresh.sh: '$command' failed as $name in a bare $suite" >&2; exit 1; }
      echo "== $suite, $name: $command: done in $((SECONDS - begin)) s"
    done
  done
  exit 0
fi

# --- outside: makes the system, and removes it -----------------------------------------------------------------------------

[ "$(id -u)" = 0 ] || cannot "a bare system is made by root; this is $(id -un)"
command -v debootstrap >/dev/null || cannot "debootstrap is not installed (Debian: debootstrap)"
unshare --mount --pid --fork true 2>/dev/null || cannot "this machine does not let root mount file systems (unshare fails)"

# debootstrap knows a suite by a script of that name. A suite that is too new for it can use the script of an older one.
case $suite in
jammy | noble | oracular | plucky | questing) distribution=ubuntu script=gutsy ;;
*) distribution=debian script=sid ;;
esac
scripts=/usr/share/debootstrap/scripts
[ -e "$scripts/$script" ] || cannot "debootstrap has no script for $suite"
[ ! -e "$scripts/$suite" ] || script=$suite

# The machine's own mirror: the first that apt uses for this distribution's main archive.
if [ -z "$mirror" ]; then
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    awk -v label="$distribution" 'tolower($1) == label && tolower($2) == label && $3 ~ /^http/ { print $3; exit }')
fi
keyring=/usr/share/keyrings/$distribution-archive-keyring.gpg
[ -e "$keyring" ] || cannot "the keys of $distribution are not installed (Debian: $distribution-archive-keyring or ubuntu-keyring)"
if [ -z "${http_proxy:-}" ]; then
  eval "$(apt-config shell proxy Acquire::http::Proxy 2>/dev/null)"
  [ -z "${proxy:-}" ] || export http_proxy=$proxy
fi

made=
log=$(mktemp)
end() {
  rm -f "$log"
  [ -z "$made" ] || [ -n "$keep" ] || rm -rf --one-file-system "$made"
  [ -z "$keep" ] || [ -z "$made" ] || echo "The system is in $made."
}
trap end EXIT

# Runs a command in namespaces of its own. A signal to this script ends everything in them and unmounts what is mounted there:
# unshare ignores signals other than KILL while it waits, and bash passes no SIGINT to background processes.
apart() {
  unshare --mount --pid --fork --kill-child "$@" &
  local child=$!
  trap "kill -KILL $child; wait $child 2>/dev/null || true; exit 130" INT
  trap "kill -KILL $child; wait $child 2>/dev/null || true; exit 143" TERM HUP
  wait "$child"
}

if [ -n "$system" ]; then
  [ ! -e "$system" ] || { echo "fresh.sh: $system exists" >&2; exit 1; }
  mkdir -p "$system"
  system=$(cd "$system" && pwd)
else
  system=$(mktemp -d "${TMPDIR:-/tmp}/crosshead-$suite-XXXXXX")
fi
made=$system
echo "== A bare $suite${mirror:+ from $mirror}"
if ! apart debootstrap --variant=minbase --keyring="$keyring" "$suite" "$system" ${mirror:+"$mirror"} ${mirror:+"$script"} >"$log" 2>&1; then
  tail -5 "$log" >&2
  cannot "debootstrap makes no $suite here"
fi
chmod 755 "$system"
echo force-unsafe-io >"$system/etc/dpkg/dpkg.cfg.d/fresh" # this system need not survive a power failure
echo 'APT::Install-Recommends "false"; APT::Get::Assume-Yes "true"; Acquire::Languages "none";' >"$system/etc/apt/apt.conf.d/90fresh"
if [ "$distribution" = ubuntu ]; then sed -i 's/main$/main universe/' "$system/etc/apt/sources.list"; fi
cp /etc/resolv.conf "$system/etc/resolv.conf"
chroot "$system" useradd --create-home --shell /bin/bash user
for name in $who; do
  home=$system/root
  [ "$name" = root ] || home=$system/home/$name
  git -c advice.detachedHead=false clone -q --no-hardlinks "file://$here" "$home/crosshead"
  [ ${#copies[@]} = 0 ] || cp -r "${copies[@]}" "$home"
  [ "$name" = root ] || chroot "$system" chown -R "$name:$name" "/home/$name"
done

export FRESH_INSIDE=yes
arguments=("$suite" --dir "$system")
[ "$who" = "user root" ] || arguments+=(--as "$who")
for command in "${commands[@]}"; do arguments+=(--run "$command"); done
apart "$0" "${arguments[@]}"
