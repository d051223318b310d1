# members that hang: given up if the others make up for them, waited for if not
# The members at these INDEXES, at once: the daemon sees none of them alone.
hang() {
    local index
    kill -STOP "$daemon"
    for index; do
        dmsetup suspend --noflush --nolockfs "member$index"
    done
    kill -CONT "$daemon"
}
answer() { dmsetup resume "member$1"; }

# Takes the member at INDEX alone, if nobody else has it.
claim() { dmsetup create claimed --table "0 8 linear /dev/mapper/member$1 0"; }

# Waits until nobody has the member at INDEX.
until_free() {
    until claim "$1" 2>/dev/null; do
        sleep 0.1
    done
    dmsetup remove claimed
}

null_members 5 64
spare=${members[4]}
unset 'members[4]'
for member in 0 1 2; do
    map_member "$member" "0 %s linear %d 0"
done
create --level raid5 >/dev/null
start --io-timeout=6s
evenkeel rebuild status tank --wait >/dev/null

say "one hangs under load: a spare takes its place"
evenkeel disk add tank "$spare" >/dev/null
load verify --bs=16k --size=12M --iodepth=8 --verify_backlog=16
under_load 50
hang 1
until_status "member 1 .*was taken out of service: it does not answer"
unload
whole
verify --bs=16k --size=12M --iodepth=8 --randseed=2

say "nobody can have it while it has not ended what was given up"
refused "busy" claim 1
answer 1
until_free 1
evenkeel disk add tank "${members[1]}" --force >/dev/null
# What it had been given is written by now.
verify --bs=16k --size=12M --iodepth=8 --randseed=2 --verify_only
whole

say "two hang under load: they are waited for, and nothing fails"
evenkeel disk remove tank "${members[1]}" >/dev/null
load verify --bs=16k --size=8M --iodepth=32 --verify_backlog=32
under_load 50
hang 0 2
until_status "member 0 .*does not answer"
until_status "member 2 .*does not answer"
# A whole stripe, behind what the load writes: it takes both of them.
stripe=$(($(queue chunk_sectors) * 512))
dd if=/dev/urandom of="$disk" bs=$stripe seek=$(((16 << 20) / stripe)) count=1 oflag=direct \
    conv=notrunc status=none &
whole_stripe=$!
# Longer than it takes to give up one.
sleep 7
kill -0 "$whole_stripe" || fail "a write has ended that members have not"
loaded
until_status "state: online"
answer 0
answer 2
wait "$whole_stripe"
unload
until_status "member 2 .*answers again"
whole

say "a stop does not wait for who was given up"
hang 2
verify --bs=16k --size=1M --iodepth=8 --randseed=4
until_status DEGRADED
# It is not looked at until it is asked for: what looks would wait for it, and the daemon not end.
{ evenkeel --json status tank || true; } | grep -q '"comes_back": *"by-command"' ||
    fail "who does not answer is looked for"
stop
answer 2
until_free 2
members[1]=$spare
start
until_status "member 2 is out of service"
verify --bs=16k --size=1M --iodepth=8 --randseed=4 --verify_only
stop
no_device_left
