# what Linux md has made, taken over by Evenkeel and given back, byte by byte: docs/operations.md
# run: long

# md_create LEVEL LAYOUT OPTIONS...: md's array of all members, in step.
md_create() {
    local level=$1 layout=$2
    shift 2
    [[ $layout == - ]] || set -- --layout="$layout" "$@"
    mdadm --create /dev/md7 --run --metadata=1.2 --homehost=any --name=data --level="$level" \
        --raid-devices=${#members[@]} "$@" "${members[@]}" >/run/mdadm 2>&1 || fail "$(</run/mdadm)"
    # It fails if there is nothing to wait for.
    mdadm --wait /dev/md7 2>/dev/null || true
}

md_assemble() {
    mdadm --assemble /dev/md7 "$@" "${members[@]}" >/run/mdadm 2>&1 || fail "$(</run/mdadm)"
}

md_stop() {
    mdadm --stop /dev/md7 2>/dev/null
}

# Lets md compare data and parity.
md_matches() {
    until [[ $(</sys/block/md7/md/last_sync_action) == check ]]; do
        # Refused while md is busy.
        echo check >/sys/block/md7/md/sync_action 2>/dev/null || true
        until [[ $(</sys/block/md7/md/sync_action) == idle ]]; do
            sleep 0.1
        done
    done
    same "what differs" "$(</sys/block/md7/md/mismatch_cnt)" 0
}

# filled DEVICE: it has a file system with files, and /tmp/copy is all of it.
filled() {
    mkfs.ext4 -q "$1"
    mount "$1" /mnt
    cp -r "$source" /mnt/one
    umount /mnt
    dd if="$1" of=/tmp/copy bs=1M status=none
}

# checked DEVICE: it is /tmp/copy, with that file system.
checked() {
    cmp "$1" /tmp/copy
    e2fsck -fn "$1" >/run/check 2>&1 || fail "$(</run/check)"
}

# Small programs, in a tree.
source=/tmp/source
mkdir "$source"
cp /usr/sbin/*[a-c] "$source" 2>/dev/null || true
dd if=/dev/urandom of="$source/more" bs=64k count=40 status=none

# round LEVEL LAYOUT: from md, back before anything is written, and there and back for good.
round() {
    local level=$1 layout=$2 options=(--data-offset=16M)
    members=()
    null_members 4 48
    [[ $level == 0 ]] || options+=(--bitmap=internal)
    [[ $level == 1 ]] || options+=(--chunk=64)
    md_create "$level" "$layout" "${options[@]}"
    filled /dev/md7
    refused "in use" evenkeel import "${members[@]}"
    md_stop

    evenkeel import "${members[@]}" >/dev/null
    refused "import --commit" evenkeel start "${members[@]}"
    refused "a member of the Evenkeel array" evenkeel create other --level raid0 "${members[@]}"
    # What is prepared is nothing to md.
    md_assemble --readonly
    checked /dev/md7
    md_stop
    evenkeel import --undo "${members[@]}" >/dev/null
    md_assemble
    checked /dev/md7
    refused "mdadm --stop /dev/md7 && evenkeel import --commit ${members[*]}" \
        evenkeel import --commit /dev/md7
    evenkeel import --dry-run /dev/md7 >/dev/null
    mount -r /dev/md7 /mnt
    refused "mdadm does not stop /dev/md7" evenkeel import --stop --commit /dev/md7
    umount /mnt
    evenkeel import --stop --commit --name tank /dev/md7 >/dev/null
    if mdadm --assemble /dev/md7 "${members[@]}" >/run/mdadm 2>&1; then
        fail "md has assembled it, too"
    fi
    start
    checked "$disk"
    mount "$disk" /mnt
    diff -r "$source" /mnt/one
    cp -r "$source" /mnt/two
    rm -r /mnt/one
    umount /mnt
    evenkeel rebuild status tank --wait >/run/status || true
    [[ $level == 0 ]] || whole
    dd if="$disk" of=/tmp/copy bs=1M status=none
    stop
}

# As docs/leaving-for-md.md has it.
back() {
    local level=$1 layout=$2 said
    [[ $layout == - ]] && layout=() || layout=(--layout="$layout")
    said=$(evenkeel examine "${members[0]}")
    [[ $said =~ data\ area\ +([0-9]+)\ KiB\ of\ each\ member,\ from\ ([0-9]+)\ KiB\ on ]] ||
        fail "no data area: $said"
    same "where the data begins" "${BASH_REMATCH[2]}" 16384
    mdadm --create /dev/md7 --run --assume-clean --bitmap=none --metadata=1.2 --homehost=any \
        --name=data --data-offset="${BASH_REMATCH[2]}K" --level="$level" "${layout[@]}" --chunk=64 \
        --size="${BASH_REMATCH[1]}" --raid-devices=${#members[@]} "${members[@]}" \
        >/run/mdadm 2>&1 || fail "$(</run/mdadm)"
    checked /dev/md7
    md_matches
    md_stop
}

for shape in 5:left-symmetric 10:n2 6:left-symmetric 4:- 5:right-asymmetric 5:parity-first 6:parity-last 5:left-asymmetric 5:right-symmetric; do
    IFS=: read -r level layout <<<"$shape"
    say "raid$level, $layout"
    round "$level" "$layout"
    back "$level" "$layout"
done
for level in 1 0; do
    say "raid$level"
    round "$level" -
done

say "as mdadm makes it of large devices"
members=()
null_members 4 140000
md_create 5 - --assume-clean
mkfs.ext4 -q -E lazy_itable_init=1,nodiscard /dev/md7
mount /dev/md7 /mnt
cp -r "$source" /mnt/one
umount /mnt
size=$(blockdev --getsize64 /dev/md7)
md_stop
evenkeel import --dry-run "${members[@]}"
evenkeel import --commit --assume-clean --name tank "${members[@]}" >/dev/null
start
same "the size" "$(blockdev --getsize64 "$disk")" "$size"
e2fsck -fn "$disk" >/run/check 2>&1 || fail "$(</run/check)"
mount "$disk" /mnt
diff -r "$source" /mnt/one
umount /mnt
stop

say "what md has not finished is left alone"
members=()
null_members 3 48
md_create 5 - --data-offset=16M
mdadm --fail /dev/md7 "${members[2]}" 2>/dev/null
md_stop
# The one that md has failed says of itself what it did before.
refused "says something else" evenkeel import "${members[@]}"
no_device_left
