# members over NVMe/TCP: a path is lost and back, a target is without power, and the array is exported by NVMe/TCP itself
# run: long
ip link set lo up
modprobe -a nvmet nvmet-tcp nvme-tcp
target=/sys/kernel/config/nvmet

# export INDEX DEVICE: a target with a port of its own, which serves this device.
export_device() {
    local nqn=nqn.2026-11.test:$1 port=$target/ports/$((1 + $1))
    mkdir "$target/subsystems/$nqn" "$port"
    echo 1 >"$target/subsystems/$nqn/attr_allow_any_host"
    mkdir "$target/subsystems/$nqn/namespaces/1"
    echo -n "$2" >"$target/subsystems/$nqn/namespaces/1/device_path"
    echo 1 >"$target/subsystems/$nqn/namespaces/1/enable"
    echo tcp >"$port/addr_trtype"
    echo ipv4 >"$port/addr_adrfam"
    echo 127.0.0.1 >"$port/addr_traddr"
    echo $((4420 + $1)) >"$port/addr_trsvcid"
    path_back "$1"
}

# The path to the target at INDEX.
path_lost() { rm "$target/ports/$((1 + $1))/subsystems/nqn.2026-11.test:$1"; }
path_back() { ln -s "$target/subsystems/nqn.2026-11.test:$1" "$target/ports/$((1 + $1))/subsystems/"; }

# connect INDEX [OPTION]: prints the device. A path that is lost is tried again each second.
connect() {
    local nqn=nqn.2026-11.test:$1 to="transport=tcp,traddr=127.0.0.1,trsvcid=$((4420 + $1))" found
    echo "nqn=$nqn,$to,reconnect_delay=1,ctrl_loss_tmo=3600${2:+,$2}" >/dev/nvme-fabrics
    until found=$(grep -lx "$nqn" /sys/class/nvme/nvme*/subsysnqn 2>/dev/null) &&
        found=$(compgen -G "${found%/*}/nvme*n1") && found=${found##*/} &&
        [[ -b /dev/${found/c*n/n} ]]; do
        sleep 0.1
    done
    # nvme0c0n1 is the path, nvme0n1 the device.
    echo "/dev/${found/c*n/n}"
}

null_members 4 64
local_members=("${members[@]}")
members=()
for index in 0 1 2 3; do
    export_device "$index" "${local_members[index]}"
    # The last one gives up early, so that its errors reach the array.
    members+=("$(connect "$index" "fast_io_fail_tmo=$((index == 3 ? 1 : 3000))")")
done
create --level raid5 >/dev/null
start
first=$disk
evenkeel rebuild status tank --wait >/dev/null || true

say "fio verifies"
verify --bsrange=4k-64k --blockalign=4k --size=8M --iodepth=8 --verify_backlog=32 --fsync=64

say "a path is lost and back sooner than the array's limit: users wait, and nothing else happens"
load verify --bsrange=4k-64k --blockalign=4k --size=8M --iodepth=8 --verify_backlog=32
under_load 20
path_lost 1
sleep 2
path_back 1
under_load 50
unload
whole

say "the same of three at once, as when the host that has them restarts"
load verify --bsrange=4k-64k --blockalign=4k --size=8M --iodepth=8 --verify_backlog=32
under_load 20
for index in 0 1 2; do path_lost "$index"; done
sleep 2
for index in 0 1 2; do path_back "$index"; done
under_load 50
unload
whole

say "a path that gives up: the array goes on, and takes the member back with what it has missed"
load verify --bsrange=4k-64k --blockalign=4k --size=8M --iodepth=8 --verify_backlog=32
under_load 20
path_lost 3
until_status DEGRADED
under_load 20
path_back 3
# It is the same device all the time, which has failed: an operator takes it back.
until evenkeel disk add tank "${members[3]}" >/run/added 2>&1; do
    sleep 0.5
done
grep -q "is back" /run/added || fail "$(</run/added)"
under_load 20
unload
whole
same "the device" "$disk" "$first"

say "the array is exported by NVMe/TCP to another host, and its daemon is killed meanwhile"
export_device 4 "$disk"
remote=$(connect 4)
local_disk=$disk
disk=$remote
load verify --bsrange=4k-64k --blockalign=4k --size=8M --iodepth=8 --verify_backlog=32
under_load 50
kill_daemon
start
same "the device" "$disk" "$local_disk"
disk=$remote
under_load 50
unload
mkfs.ext4 -q "$remote"
mount "$remote" /mnt
cp -r /vm /mnt/
umount /mnt
e2fsck -fn "$remote" >/dev/null 2>&1
remote=${remote##*/}
echo 1 >"/sys/class/nvme/${remote%n1}/delete_controller"
path_lost 4
echo 0 >"$target/subsystems/nqn.2026-11.test:4/namespaces/1/enable"
disk=$local_disk
mount "$disk" /mnt
[[ -e /mnt/vm/init || -n $(ls /mnt/vm) ]] || fail "what the other host wrote is not there"
umount /mnt
whole
stop
no_device_left
