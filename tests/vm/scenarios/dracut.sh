# the root file system is on an array by dracut: started, taken over, restarted, stopped at shutdown
# machine: dracut
# run: long
disk=$(readlink /dev/evenkeel/tank)
log=/run/evenkeel/tank.log

# The process that systemd leaves alone at shutdown, by its name.
daemon_of() {
    local file name
    for file in /proc/[0-9]*/cmdline; do
        read -r -d '' name 2>/dev/null <"$file" || continue
        [[ $name != @evenkeel ]] || echo "$file"
    done | tr -dc '0-9\n'
}

say "the root file system is on it"
device=$(while read -r _ _ device _ at _; do
    [[ $at != / ]] || echo "$device"
done </proc/self/mountinfo)
same "the root file system's device" "$device" "$(<"/sys/block/${disk##*/}/dev")"
echo written >/root/first

say "a process of this system's program has taken it over, and has the limits of its service"
systemctl is-active evenkeel-takeover@tank.service
daemon=$(daemon_of)
[[ $daemon ]] || fail "systemd would end it"
same "its program" "$(readlink "/proc/$daemon/exe")" /usr/bin/evenkeel
same "its view of it" "$(cat "/proc/$daemon/root/root/first")" written
same "its filters of system calls" "$(sed -n 's/^Seccomp:[[:space:]]*//p' "/proc/$daemon/status")" 2
refused inactive systemctl is-active evenkeel@tank.service
same "what failed" "$(systemctl list-units --failed --no-legend --plain 'evenkeel*')" ''

say "it is replaced under load, with nothing of the root file system in memory that could be read again"
load verify /root/file --bs=4k --size=4M --iodepth=8
under_load 100
echo 3 >/proc/sys/vm/drop_caches
systemctl restart evenkeel-takeover@tank.service
under_load 100
unload
[[ $(daemon_of) != "$daemon" ]] || fail "it is the same process"
[[ $(daemon_of) ]] || fail "systemd would end it"

say "a member fails"
evenkeel disk fail tank 1
verify /root/file --bs=4k --size=256K
echo 'written last' >/root/last
