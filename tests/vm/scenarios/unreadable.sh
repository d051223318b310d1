# a rebuild meets a block that can't be read: what it held is lost, and nothing else
null_members 5 64
spare=${members[4]}
unset 'members[4]'
map_member 1 "0 %s linear %d 0"
create --level raid5 --chunk 64K >/dev/null
start
evenkeel rebuild status tank --wait >/dev/null
size=$(blockdev --getsize64 "$disk")
head -c "$size" /dev/urandom >/tmp/content
dd if=/tmp/content of="$disk" bs=1M oflag=direct status=none

# The sixth block of stripe 100, which has its parity on member 3.
[[ $(evenkeel examine "${members[0]}") =~ data\ area\ +[0-9]+\ KiB\ of\ each\ member,\ from\ ([0-9]+)\ KiB\ on ]]
bad=$((BASH_REMATCH[1] * 2 + 100 * 128 + 5 * 8))
sectors=$(blockdev --getsz "${below[1]}")
table() {
    dmsetup load member1
    dmsetup suspend --noflush --nolockfs member1
    dmsetup resume member1
}
evenkeel disk fail tank 2 >/dev/null
table <<<"0 $bad linear ${below[1]} 0
$bad 8 error
$((bad + 8)) $((sectors - bad - 8)) linear ${below[1]} $((bad + 8))"
evenkeel disk add tank "$spare" >/dev/null
evenkeel rebuild status tank --wait >/dev/null || true

say "what is lost is told"
stripe=$((3 << 16))
lost=($((100 * stripe + (1 << 16) + (5 << 12))) $((100 * stripe + (2 << 16) + (5 << 12))))
{ evenkeel status tank || true; } >/run/status
grep -q "what was at ${lost[0]}+4096, ${lost[1]}+4096 of the array is lost: member 1 at $((bad * 512))+4096" \
    /run/status || fail "$(</run/status)"
grep -q "as a whole ($((100 * stripe))+$stripe)" /run/status || fail "$(</run/status)"

say "all else is there"
from=0
for at in "${lost[@]}" "$size"; do
    cmp -i "$from" -n $((at - from)) "$disk" /tmp/content
    from=$((at + 4096))
done
refused "Input/output error" dd if="$disk" bs=4096 skip=$((lost[0] / 4096)) count=1 iflag=direct of=/dev/null

say "a stop, a start: it goes on where it was"
stop
members[2]=$spare
start
evenkeel rebuild status tank --wait >/run/status || true
grep -q "which can't go on" /run/status || fail "$(</run/status)"

say "the stripe is overwritten, for which the drive has another block"
dd if="$disk" of=/tmp/stripe bs=4096 skip=$((100 * stripe / 4096)) count=$((stripe / 4096)) \
    iflag=direct conv=noerror,sync 2>/run/said || true
table <<<"0 $sectors linear ${below[1]} 0"
dd if=/tmp/stripe of="$disk" bs=$stripe count=1 seek=$((100 * stripe)) oflag=seek_bytes,direct \
    status=none
whole
for at in "${lost[@]}"; do
    dd if=/dev/zero of=/tmp/content bs=4096 seek=$((at / 4096)) count=1 conv=notrunc status=none
done
cmp "$disk" /tmp/content
stop
