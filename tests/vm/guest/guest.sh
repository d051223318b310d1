# Runs a scenario, a script of bash, with what scenarios share. It fails where a command does.
#
# What the functions below set:
#   members   the paths of what the array is made of
#   daemon    the process that runs it
#   disk      the block device that it is
#   user      the process that loads it
# shellcheck shell=bash disable=SC2034
set -Eeuo pipefail

# There is no udev to make the files of device-mapper.
export DM_DISABLE_UDEV=1

log=/run/daemon.log
members=() daemon='' disk='' user=''

# The scenario has failed: tells where, and what the daemon had to say.
fail() {
    trap - ERR
    echo "FAILED: $*"
    local frame
    for ((frame = 1; frame < ${#FUNCNAME[@]}; frame++)); do
        echo "  ${BASH_SOURCE[frame]##*/}:${BASH_LINENO[frame - 1]} ${FUNCNAME[frame]}"
    done
    [[ ! -s $log ]] || { echo "The daemon's log ends so:" && tail -n 40 "$log"; }
    exit 1
}
trap 'fail "$BASH_COMMAND (status $?)"' ERR

say() { echo "-- $*"; }

# same WHAT FOUND WANTED: the two have to be equal.
same() {
    [[ $2 == "$3" ]] || fail "$1 is '$2', not '$3'"
}

# refused WORDS COMMAND...: the command has to fail, and to say WORDS.
refused() {
    local words=$1 said
    shift
    if said=$("$@" 2>&1); then
        fail "'$*' should have failed, and said: $said"
    fi
    [[ $said == *"$words"* ]] || fail "'$*' should have said '$words', not: $said"
}

# Devices to be members, by what they are made of; each adds to `members`.
made=0

# null_members COUNT MIB: memory, quick, with discards.
null_members() {
    local number dir
    [[ -d /sys/kernel/config/nullb ]] || modprobe null_blk nr_devices=0
    for ((number = 0; number < $1; number++)); do
        dir=/sys/kernel/config/nullb/null$((made++))
        mkdir "$dir"
        echo "$2" >"$dir/size"
        echo 4096 >"$dir/blocksize"
        echo 1 >"$dir/memory_backed"
        echo 1 >"$dir/discard"
        echo 1 >"$dir/power"
        members+=("/dev/${dir##*/}")
    done
}

# loop_members COUNT MIB: files in memory.
loop_members() {
    local number
    for ((number = 0; number < $1; number++)); do
        truncate -s "$2M" "/tmp/member$made"
        members+=("$(losetup --find --show --sector-size 4096 "/tmp/member$made")")
        made=$((made + 1))
    done
}

# Put a mapping of device-mapper over the member at INDEX, or change the one that is there:
# map_member INDEX TABLE, in which %s stands for its sectors and %d for the device below.
declare -A below=()
map_member() {
    local index=$1 name=member$1 table=$2
    : "${below[$index]:=${members[index]}}"
    table=${table//%s/$(blockdev --getsz "${below[$index]}")}
    table=${table//%d/${below[$index]}}
    if [[ -e /dev/mapper/$name ]]; then
        dmsetup load "$name" --table "$table"
        dmsetup suspend --noflush --nolockfs "$name"
        dmsetup resume "$name"
    else
        dmsetup create "$name" --table "$table"
        members[index]=/dev/mapper/$name
    fi
}

# create OPTIONS...: the array `tank` of all members.
create() {
    evenkeel create tank "$@" "${members[@]}"
}

# start OPTIONS...: runs the array as a block device; the daemon is a child, and serves when this
# returns. If it can't, this fails.
start() {
    [[ " $*" == *" --ublk"* ]] || set -- --ublk "$@"
    local ready address='"kind":"ublk","address":"([^"]*)"'
    local other='"address":"([^"]*)",("behind":"[^"]*",)?"kind":"ublk"'
    rm -f /run/ready
    mkfifo /run/ready
    evenkeel --json start "$@" "${members[@]}" >/run/ready 2>>"$log" &
    daemon=$!
    read -r ready </run/ready || true
    if [[ $ready != *'"result":'* ]]; then
        wait "$daemon" || true
        daemon=''
        echo "$ready"
        return 1
    fi
    [[ $ready =~ $address || $ready =~ $other ]] || fail "there is no device: $ready"
    disk=${BASH_REMATCH[1]}
    [[ -b $disk ]] || fail "$disk is no block device"
}

# Stops the array, which has to end well.
stop() {
    evenkeel stop tank
    wait "$daemon"
    daemon=''
}

# Ends the daemon at once.
kill_daemon() {
    kill -KILL "$daemon"
    # It says that the daemon was killed.
    wait "$daemon" 2>/dev/null || true
    daemon=''
}

# Waits until the array says so of itself; fails if it does not for far longer than anything takes.
until_status() {
    local begun=$SECONDS
    # Its exit status tells how the array is, which may be anything here.
    until { evenkeel status tank >/run/status || true; } && grep -q "$1" /run/status; do
        ((SECONDS - begun < 600)) || fail "'$1' is not in the status: $(</run/status)"
        [[ ! $user ]] || loaded
        sleep 0.1
    done
}

# No mismatch, and no member missing.
whole() {
    evenkeel rebuild status tank --wait >/run/status || true
    grep -q "state: online" /run/status || fail "$(</run/status)"
    evenkeel scrub start tank --wait >/run/status || true
    grep -q "found 0 mismatches" /run/status || fail "$(</run/status)"
}

# The devices of the driver.
no_device_left() {
    local left
    left=$(find /dev /sys/block /sys/class/ublk-char -name 'ublk[bc]*' 2>/dev/null)
    [[ ! $left ]] || fail "devices are left: $left"
}

# queue LIMIT: one of the disk's.
queue() {
    cat "/sys/block/${disk##*/}/queue/$1"
}

# written: how many writes the disk has completed.
written() {
    local stat
    read -ra stat <"/sys/block/${disk##*/}/stat"
    echo "${stat[4]}"
}

# verify [FILE] OPTIONS...: fio writes the disk, or a file, reads, and compares; fails if anything
# fails or differs.
verify() {
    local file=$disk
    [[ $1 != /* ]] || { file=$1 && shift; }
    fio --eta=never --output-format=terse --terse-version=3 --name=verify --filename="$file" \
        --ioengine=io_uring --direct=1 --rw=randwrite --verify=crc32c --verify_fatal=1 \
        --randseed=$RANDOM "$@" >/run/fio 2>&1 || { cat /run/fio && return 1; }
}

# load COMMAND...: runs it in the background, again and again, until `unload`: what happens meanwhile
# happens under load, however slow the machine is.
load() {
    rm -f /run/enough
    {
        until [[ -e /run/enough ]]; do
            "$@"
        done
    } &
    user=$!
}

# Fails if the load has: nothing else ends it.
loaded() { kill -0 "$user" 2>/dev/null || fail "the load has failed"; }

# Lets the load come to its end, which has to be a good one.
unload() {
    touch /run/enough
    wait "$user"
    user=''
}

# under_load COUNT: returns when that many more writes have completed.
under_load() {
    local until=$(($(written) + $1))
    while (($(written) < until)); do
        loaded
        sleep 0.02
    done
}

# Restarts the array while a file system on it is mounted and used: its block device stays `first`.
restart_while_mounted() {
    evenkeel start --background --ublk=0 "${members[@]}"
    mkfs.ext4 -q "$disk"
    mount "$disk" /mnt
    load verify /mnt/file --bs=4k --size=4M --iodepth=8
    under_load 50
    evenkeel restart tank
    same "the device" "$(readlink /dev/evenkeel/tank)" "$first"
    unload
    umount /mnt
    e2fsck -fn "$disk" >/dev/null 2>&1
    evenkeel stop tank
    no_device_left
}

# Writes a file to the file system at /mnt, and flushes it.
keep_flushed() {
    dd if=/dev/urandom of=/run/kept bs=64k count=16 status=none
    cp /run/kept /mnt/kept
    sync -f /mnt
}

# The file system at /mnt has lost its device, as acknowledged writes are lost.
users_are_gone() {
    if head -c 1M /dev/urandom >/mnt/more && sync -f /mnt; then
        fail "the file system goes on upon a device that has lost writes"
    fi 2>/dev/null
    umount /mnt || umount -l /mnt
}

# Mends the file system on the array: what `keep_flushed` wrote is there.
kept_is_there() {
    e2fsck -fy "$disk" >/dev/null 2>&1 || (($? <= 1)) || fail "the file system can't be mended"
    mount -o ro "$disk" /mnt
    cmp /run/kept /mnt/kept
    umount /mnt
}

modprobe -a ublk_drv loop
. "$1"
