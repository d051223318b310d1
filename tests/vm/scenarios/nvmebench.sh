# how many instructions an I/O takes on NVMe drives, past the block layer and beside Linux md: docs/results/performance.md
# machine: counted
. /vm/measure.sh

# Drives that the kernel makes of memory: its NVMe target, which its NVMe driver reaches by a loop. One
# that QEMU emulates ends an I/O when this host gets to it, and meanwhile the machine's time goes by.
timed_members 6 0
modprobe nvme_loop
target=/sys/kernel/config/nvmet/subsystems/drives port=/sys/kernel/config/nvmet/ports/1
mkdir "$target" "$port"
echo 1 >"$target/attr_allow_any_host"
number=0
all=()
for member in "${members[@]}"; do
    number=$((number + 1))
    mkdir "$target/namespaces/$number"
    echo "$member" >"$target/namespaces/$number/device_path"
    echo 1 >"$target/namespaces/$number/enable"
    all+=("/dev/nvme0n$number")
done
echo loop >"$port/addr_trtype"
ln -s "$target" "$port/subsystems/drives"
echo "transport=loop,nqn=drives" >/dev/nvme-fabrics
for drive in "${all[@]}"; do
    until [[ -b $drive && -c ${drive/nvme/ng} ]]; do
        sleep 0.1
    done
done
spare=${all[5]}
unset 'all[5]'
# Longer than those of measure.sh, as the differences are small.
work=(
    "random reads 4K, depth 1:randread 4k 1 8000"
    "random reads 4K, depth 16:randread 4k 16 16000"
    "random writes 4K, depth 1:randwrite 4k 1 6000"
    "random writes 4K, depth 16:randwrite 4k 16 12000"
)

# Nothing of the array before is left.
fresh() {
    local drive
    members=("${all[@]}")
    for drive in "${members[@]}"; do
        dd if=/dev/zero of="$drive" bs=1M count=48 oflag=direct status=none
    done
}

# evenkeel_rows CONSISTENCY WAY
evenkeel_rows() {
    fresh
    create --chunk 64K --level raid5 --consistency "$1" >/dev/null
    start --passthrough "$2"
    evenkeel rebuild status tank --wait >/dev/null
    warm_up
    measured "evenkeel $1, $2" "${work[@]}"
    stop >/dev/null
}

# md_rows CONSISTENCY OPTIONS...
md_rows() {
    fresh
    serve_md "${@:2}" --level=raid5
    measured "md $1" "${work[@]}"
    stop_md
}

# raw WAY FILE OPTIONS...: a drive alone.
raw() {
    disk=$2
    measured "drive, $1" "${work[@]/%/ ${*:3}}"
}
fresh
raw never "${all[0]}" --fixedbufs=1 --registerfiles=1
raw auto "${all[0]/nvme/ng}" --ioengine=io_uring_cmd --cmd_type=nvme --direct=0 --fixedbufs=1 --registerfiles=1
md_rows bitmap --bitmap=internal
evenkeel_rows bitmap never
evenkeel_rows bitmap auto
grep "block layer" "$log" | tail -5
md_rows ppl --consistency-policy=ppl
evenkeel_rows journal never
evenkeel_rows journal auto

# What entries of 128 bytes cost by themselves: only a spare, which is not used, goes past the block
# layer.
fresh
create --chunk 64K --level raid5 --consistency bitmap >/dev/null
start --passthrough never
evenkeel disk add tank "$spare" >/dev/null
evenkeel rebuild status tank --wait >/dev/null
stop >/dev/null
rm "${all[@]/nvme/ng}"
members+=("$spare")
start --passthrough auto
grep "block layer" "$log" | tail -6
warm_up
measured "evenkeel bitmap, large entries" "${work[@]}"
stop >/dev/null
for way in never auto; do
    compared "The write hole open" "md bitmap" "evenkeel bitmap, $way" "${work[@]}"
done
for way in never auto; do
    compared "The write hole closed" "md ppl" "evenkeel journal, $way" "${work[@]}"
done
for consistency in bitmap journal; do
    compared "Past the block layer" "evenkeel $consistency, never" "evenkeel $consistency, auto" "${work[@]}"
done
compared "Large entries" "evenkeel bitmap, never" "evenkeel bitmap, large entries" "${work[@]}"
