# packages installed in a clean Debian, upgraded under load, refused to go while they serve, and removed
# machine: debian
# run: long
unit=evenkeel@tank.service
log=/run/daemon.log

# The process of the array's service.
process() { systemctl show --property=MainPID --value "$unit"; }

# The package's state in the system, as dpkg has it, and its version.
installed() { dpkg-query --show --showformat='${db:Status-Status} ${Version}' evenkeel; }

# do_dpkg OPTIONS...: it has to succeed.
do_dpkg() { dpkg "$@" >/run/dpkg 2>&1 || fail "$(</run/dpkg)"; }

failed() { systemctl list-units --failed --no-legend --plain 'evenkeel*' srv.mount; }

# The content of all members.
content() { cat "${members[@]}" | sha256sum; }

say "it is installed: what has to run runs, and nothing is served"
do_dpkg --install /vm/old.deb
same "the package" "$(installed)" "installed 0.0.1-1"
for each in evenkeel-scrub.timer evenkeel-monitor.service; do
    systemctl is-active --quiet "$each" || fail "$each does not run"
    systemctl is-enabled --quiet "$each" || fail "$each is not enabled"
done
refused disabled systemctl is-enabled evenkeel-exporter.service
evenkeel list

say "udev has an array started, and a mount of fstab waits for it"
mkdir -p /etc/evenkeel/hooks.d /mnt/tank
echo 'OPTIONS=--fuse /mnt/tank --nbd-tcp 127.0.0.1:10809' >/etc/evenkeel/tank.conf
null_members 4 64
spare=${members[3]}
unset 'members[3]'
evenkeel create tank --level raid5 "${members[@]}" >/dev/null
udevadm trigger --settle "${members[@]}"
until systemctl is-active --quiet "$unit"; do
    [[ $(failed) == '' ]] || fail "$(failed)"
    sleep 0.1
done
disk=$(readlink /dev/evenkeel/tank)
mkfs.ext4 -q "$disk"
echo '/dev/evenkeel/tank /srv ext4 defaults,x-systemd.after=evenkeel@tank.service 0 0' >>/etc/fstab
systemctl daemon-reload
systemctl start srv.mount
mountpoint -q /srv
echo mine >/srv/mine

say "the process has the limits of its service"
daemon=$(process)
limit() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$daemon/status"; }
same "filters of system calls" "$(limit Seccomp)" 2
same "new privileges" "$(limit NoNewPrivs)" 1
# SYS_ADMIN, SYS_RAWIO, SYS_RESOURCE, SYS_PTRACE, IPC_LOCK, DAC_OVERRIDE and DAC_READ_SEARCH.
same "capabilities" "$((16#$(limit CapBnd)))" \
    $((1 << 21 | 1 << 17 | 1 << 24 | 1 << 19 | 1 << 14 | 1 << 1 | 1 << 2))
refused "is in use" evenkeel stop tank

say "it is upgraded under load: the array's process stays, and is replaced by a restart of its service"
load verify /srv/file --bs=4k --size=4M --iodepth=8
under_load 100
do_dpkg --install /vm/new.deb
[[ $(installed) != *0.0.1-1 ]] || fail "it was not upgraded"
same "the array's process" "$(process)" "$daemon"
[[ $(readlink "/proc/$daemon/exe") == *deleted* ]] || fail "its program is the old one's"
under_load 100
systemctl restart "$unit"
under_load 100
same "its program" "$(readlink "/proc/$(process)/exe")" /usr/bin/evenkeel
same "its device" "$(readlink /dev/evenkeel/tank)" "$disk"
mountpoint -q /srv || fail "the restart has unmounted what is on it"

say "it is killed under load, and started again by systemd"
daemon=$(process)
systemctl kill --signal=KILL "$unit"
under_load 100
unload
[[ $(process) != "$daemon" ]] || fail "it is the same process"
mountpoint -q /srv || fail "the start has unmounted what is on it"
! dmesg | grep -q 'Unmounting srv.mount' || fail "systemd tried to unmount it"

say "within the limits of all services: a member fails and is rebuilt, hooks are told, metrics, a scrub, FUSE"
cat >/etc/evenkeel/hooks.d/10-note <<'END'
#!/bin/sh
echo "$EVENKEEL_EVENT" >>/root/noted
[ -e /run/seen/it ] || { mkdir -p /run/seen && mount -t tmpfs seen /run/seen && : >/run/seen/it; }
dd if=/dev/vda of=/root/block bs=4k count=1 status=none && systemctl start --no-block noted.service
evenkeel status >/root/status
END
chmod 755 /etc/evenkeel/hooks.d/10-note
printf '[Service]\nType=oneshot\nExecStart=/usr/bin/touch /root/by-service\n' \
    >/etc/systemd/system/noted.service
systemctl daemon-reload
evenkeel disk fail tank 1
until [[ -e /root/by-service && -s /root/status ]]; do sleep 0.1; done
mountpoint -q /run/seen || fail "what a hook mounts is not the system's"
grep -q degraded /root/noted || fail "$(</root/noted)"
evenkeel disk replace tank 1 "$spare" --wait >/run/replaced 2>&1 || fail "$(</run/replaced)"
cmp -n 65536 "$disk" /mnt/tank/tank
systemctl start evenkeel-exporter.service
until curl -sf http://127.0.0.1:9712/metrics >/run/metrics; do
    systemctl is-active --quiet evenkeel-exporter.service
    sleep 0.1
done
grep -q '^evenkeel_.*tank' /run/metrics || fail "$(</run/metrics)"
systemctl start evenkeel-scrub.service
same "what failed" "$(failed)" ''

say "it is not removed while it serves"
refused "as it serves" dpkg --remove evenkeel
same "the package" "$(installed)" "$(installed | sed 's/^[^ ]*/installed/')"
systemctl is-active --quiet evenkeel-monitor.service
verify /srv/file --bs=4k --size=1M

say "it is removed and purged when it does not, and members stay as they are"
systemctl stop srv.mount "$unit"
no_device_left
members[1]=$spare
kept=$(content)
do_dpkg --remove evenkeel
refused inactive systemctl is-active evenkeel-monitor.service
[[ ! -e /usr/bin/evenkeel && -e /etc/evenkeel/tank.conf && -d /var/lib/evenkeel ]]
udevadm trigger --settle "${members[@]}"
do_dpkg --purge evenkeel
[[ ! -e /var/lib/evenkeel && -e /etc/evenkeel/tank.conf ]]
same "links that are left" "$(find /etc/systemd/system -name 'evenkeel*')" ''
same "the members" "$(content)" "$kept"

say "it is installed again, and has the array with what was on it"
do_dpkg --install /vm/new.deb
udevadm trigger --settle "${members[@]}"
systemctl start srv.mount
same "what is on it" "$(</srv/mine)" mine
systemctl stop srv.mount "$unit"
same "what failed" "$(failed)" ''
