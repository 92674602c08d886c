#!/bin/sh
# Ends the processes of one cluster when the program that started it is gone, however it went.
#
#   watchdog.sh run PROGRAM ARG...  put this process on the list, then become PROGRAM
#   watchdog.sh watch               read lines "guard PID" and "unguard PID"; once nobody holds the
#                                   other end of the pipe, end what is listed and remove the folder
#
# The list is a folder beside this script with a file per process: its name is the process's ID, its
# content the time of its start, because by the time we look the ID may belong to somebody else.
set -eu
dir=$(dirname "$0")

started() {
	if [ -r /proc/self/stat ]; then
		sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f20
	else
		ps -o lstart= -p "$1"
	fi 2>/dev/null
}

list() {
	at=$(started "$1")
	[ -z "$at" ] || echo "$at" >"$dir/listed/$1"
}

case $1 in
run)
	shift
	list $$
	exec "$@"
	;;
watch)
	while read -r verb pid; do
		case $verb in
		guard) list "$pid" || true ;;
		unguard) rm -f "$dir/listed/$pid" ;;
		esac
	done
	# A process that comes to put itself on the list from here on fails and never becomes its program.
	mv "$dir/listed" "$dir/ended"
	for file in "$dir"/ended/*; do
		pid=${file##*/}
		at=$(cat "$file") || continue
		now=$(started "$pid") || continue
		# No content yet means that the process is about to write it, so the ID is right.
		[ "${at:-$now}" != "$now" ] || kill -KILL "$pid" || true
	done
	# What was killed may still be writing its last file.
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		rm -rf "$dir" && exit
		sleep 0.1
	done
	exit 1
	;;
esac
