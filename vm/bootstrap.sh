#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
# bootstrap.sh LIST...: prepares a bare Debian 12 machine for build/venv/bin/kfabric: installs
# the missing Debian packages of vm/packages-LIST.txt, the Python environment, and the packages
# of vm/requirements-LIST.txt in it. For an installed kfabric (harness/vm/source.py) pip has
# installed the Python packages. Takes well under a second if nothing is missing.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
log=$top/build/setup.log
venv=$top/build/venv
python=/usr/bin/python3 # Debian's own, not another python3 in PATH
failed=70               # ExitStatus.SETUP in harness/errors.py
lock_seconds=300
patience="-o DPkg::Lock::Timeout=$lock_seconds -o Acquire::Retries=1
	-o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30"

say() {
	echo "kfabric: $*" >&2
}

die() { # MESSAGE: printed after the end of the log
	if [ -s "$log" ]; then
		tail -n 20 "$log" >&2
	fi
	say "set-up failed: $*"
	exit $failed
}

# One set-up at a time in this checkout; a second one then has nothing to do.
lock() {
	exec 9>"$top/build/setup.lock"
	flock -w 900 9 || die "another set-up holds build/setup.lock; wait for it or end it"
}

check_path() {
	case $top in
	*[!A-Za-z0-9_./+@~-]*)
		say "set-up failed: make cannot handle a character in $top;" \
			"use a path of letters, digits and ./+@~_-"
		exit $failed
		;;
	esac
}

check_host() {
	[ "$(id -u)" = 0 ] || {
		say "set-up failed: not root; run it as root, e.g. with sudo"
		exit $failed
	}
	# shellcheck source=/dev/null
	release=$(. /etc/os-release && echo "$ID $VERSION_ID")
	[ "$release" = "debian 12" ] || {
		say "set-up failed: this is $release; Debian 12 is needed"
		exit $failed
	}
	mkdir -p "$top/build"
	free=$(df -Pm "$top/build" | awk 'NR == 2 { print $4 }')
	[ "$free" -ge 1000 ] || die "$top has $free MiB free, 1000 MiB are needed; make room"
}

entries() { # FILE...: without comments
	sed 's/#.*//' "$@" | tr -s ' \t\n' '\n' | sed '/^$/d'
}

name_of() { # ENTRY: NAME or NAME>=VERSION/SUITE
	echo "${1%%[>/]*}"
}

# An older version that is installed counts as missing, unless its suite could not be had before.
missing() { # FILE...: entries of these lists
	for entry in $(entries "$@"); do
		# shellcheck disable=SC2016 # dpkg expands it
		state=$(dpkg-query -W -f '${db:Status-Abbrev}${Version}' "$(name_of "$entry")" \
			2>/dev/null || true)
		case $state in
		"ii "*) ! is_older "${state#ii }" "$entry" || echo "$entry" ;;
		*) echo "$entry" ;;
		esac
	done
}

is_older() { # VERSION ENTRY
	case $2 in
	*">="*) ;;
	*) return 1 ;;
	esac
	least=${2#*>=}
	[ ! -e "$top/build/without-${least#*/}" ] &&
		dpkg --compare-versions "$1" lt "${least%/*}"
}

update_lists() {
	deadline=$(($(date +%s) + lock_seconds))
	# shellcheck disable=SC2086 # several options
	until apt-get update -q $patience >>"$log" 2>&1; do
		# A source that is not needed may fail; otherwise the installation fails later.
		grep -q 'Could not get lock' "$log" || return 0
		[ "$(date +%s)" -lt $deadline ] || die "another process uses apt; wait for it"
		: >"$log"
		sleep 2
	done
}

apt_install() { # OPTION... PACKAGE...
	# shellcheck disable=SC2086 # several options
	DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
		$patience "$@" >>"$log" 2>&1
}

# The host's own mirror has the suite; apt's configuration stays as it is.
install_of_suite() { # SUITE PACKAGE...: fails if they cannot be had
	suite=$1
	shift
	sources=$top/build/apt-$suite.list
	# shellcheck disable=SC2016 # apt expands it
	mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' \
		'Created-By: Packages' 'Origin: Debian' 'Architecture: amd64' 2>/dev/null |
		sed -n 's/^bookworm main //p' | head -n 1)
	[ -n "$mirror" ] || return 1
	key=/usr/share/keyrings/debian-archive-keyring.gpg
	{
		cat /etc/apt/sources.list 2>/dev/null || true
		echo "deb [signed-by=$key] $mirror $suite main"
	} >"$sources"
	place="-o Dir::Etc::SourceList=$sources"
	# shellcheck disable=SC2086 # several options
	apt-get update -q $patience $place >>"$log" 2>&1 || return 1
	# shellcheck disable=SC2086 # an option with its value
	apt_install $place -t "$suite" "$@"
}

install_packages() { # FILE...
	wanted=$(missing "$@")
	[ -n "$wanted" ] || return 0
	say "Debian packages: $(echo "$wanted" | tr '\n' ' ')"
	update_lists
	for suite in $(echo "$wanted" | sed -n 's,.*/,,p' | sort -u); do
		names=$(echo "$wanted" | sed -n "s,>=.*/$suite\$,,p")
		# shellcheck disable=SC2086 # several names
		if ! install_of_suite "$suite" $names; then
			say "not in $suite, so as Debian 12 has it:" $names
			touch "$top/build/without-$suite"
		fi
	done
	# shellcheck disable=SC2046 # several names; what is installed by now is left as it is
	apt_install $(echo "$wanted" | sed 's,[>/].*,,') ||
		die "cannot install Debian packages; check /etc/apt/sources.list* and the network"
}

install_python() {
	# Its programs name its path, so it is made again in a checkout that was moved.
	wanted=$(echo "$venv" | cat - "$top"/vm/requirements-*.txt "$top/pyproject.toml" \
		"$top/kfabric_py/pyproject.toml" "$top/kfabric_py/VERSION" "$0" | sha256sum)
	[ "$(cat "$venv/ready" 2>/dev/null)" != "$wanted" ] || return 0
	say "Python environment: build/venv; this takes a minute or two"
	$python -m venv --clear "$venv" >>"$log" 2>&1 || die "cannot make a Python environment"
	"$venv/bin/pip" install -q -r "$top/vm/requirements-host.txt" >>"$log" 2>&1 ||
		die "pip cannot install the Python packages; check the network and pip's index"
	# The name under which host and guests import harness/ (root.py).
	mkdir -p "$top/build/python"
	ln -sfn ../../harness "$top/build/python/kfabric"
	"$venv/bin/pip" install -q --no-build-isolation --no-deps -e "$top/kfabric_py" -e "$top" \
		>>"$log" 2>&1 ||
		die "pip cannot install this checkout"
	echo "$wanted" >"$venv/ready"
}

install_more_python() { # LIST: without dependencies
	file=$top/vm/requirements-$1.txt
	[ "$1" != host ] || return 0
	[ -f "$file" ] || return 0
	! cmp -s "$file" "$venv/ready-$1" || return 0
	say "Python packages: $(entries "$file" | tr '\n' ' ')"
	"$venv/bin/pip" install -q --no-deps -r "$file" >>"$log" 2>&1 ||
		die "pip cannot install the Python packages; check the network and pip's index"
	cp "$file" "$venv/ready-$1"
}

check_path
check_host
lock
: >"$log"
lists=
for name in "$@"; do
	lists="$lists $top/vm/packages-$name.txt"
done
# shellcheck disable=SC2086 # paths without spaces: kbuild refuses others, too
install_packages $lists
[ -e "$top/pyproject.toml" ] || exit 0
install_python
for name in "$@"; do
	install_more_python "$name"
done
