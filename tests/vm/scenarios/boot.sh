# udev finds the members, asks for the array's service, and that serves: packaging/
null_members 3 64
create --level raid5 >/dev/null
udevd=/lib/systemd/systemd-udevd
$udevd --daemon

property() {
    udevadm info --query=property "$1" | sed -n "s/^$2=//p"
}

say "the rule is well formed"
rule=/etc/udev/rules.d/63-evenkeel.rules
# From systemd 254 on there is a check of its own. Before, what udev has to say of a rule is told where
# rules are read, and begins with the place.
if udevadm --help | grep -q '^ *verify '; then
    udevadm verify "$rule" >/run/verified 2>&1 || fail "$(</run/verified)"
else
    udevadm test "/sys/block/${members[0]##*/}" >/run/tested 2>&1
    grep -qF "Reading rules file: $rule" /run/tested || fail "$(</run/tested)"
    said=$(grep -F "$rule:" /run/tested | grep "^$rule" || true)
    same "what udev says of the rule" "$said" ''
fi

say "every member asks for the array's service"
udevadm trigger --settle "${members[@]}"
for member in "${members[@]}"; do
    same "what $member is" "$(property "$member" ID_FS_TYPE)" evenkeel_member
    same "what $member wants" "$(property "$member" SYSTEMD_WANTS)" evenkeel@tank.service
done

say "what is no member asks for nothing"
truncate -s 64M /tmp/other
other=$(losetup --find --show /tmp/other)
udevadm trigger --settle "$other"
same "what it wants" "$(property "$other" SYSTEMD_WANTS)" ''

say "the service's command serves, and says so to systemd"
unit=/etc/systemd/system/evenkeel@.service
line=$(sed -n 's/^ExecStart=//p' "$unit")
WAIT=$(sed -n 's/^Environment=WAIT=//p' "$unit")
OPTIONS=
notified=/run/notified
NOTIFY_SOCKET=/run/notify
socat -u UNIX-RECV:$NOTIFY_SOCKET OPEN:$notified,creat &
listener=$!
until [[ -S $NOTIFY_SOCKET ]]; do sleep 0.02; done
export NOTIFY_SOCKET
eval "${line//%i/tank}" >/run/started 2>>"$log" &
daemon=$!
until grep -q READY=1 $notified 2>/dev/null; do
    kill -0 $daemon || fail "$(</run/started)"
    sleep 0.02
done
kill $listener
disk=$(readlink /dev/evenkeel/tank)
verify --bs=4k --size=1M

say "systemd can find the device by its name"
udevadm settle
same "what it is called" "$(property "$disk" SYSTEMD_ALIAS)" /dev/evenkeel/tank
stop
no_device_left
udevadm control --exit
