# NVMe drives tell how they are, one of them through a partition; a SATA drive that does not is left out
# machine: drives
modprobe -a nvme ahci sd_mod
until [[ -b /dev/nvme0n1 && -b /dev/nvme1n1 && -b /dev/sda ]]; do
    sleep 0.1
done
# A partition of 128 MiB, behind the first MiB.
printf '\0\0\0\0\x83\0\0\0\0\x08\0\0\0\0\x04\0' |
    dd of=/dev/nvme1n1 bs=1 seek=446 conv=notrunc status=none
printf '\x55\xaa' | dd of=/dev/nvme1n1 bs=1 seek=510 conv=notrunc status=none
blockdev --rereadpt /dev/nvme1n1
until [[ -b /dev/nvme1n1p1 ]]; do
    sleep 0.1
done
null_members 1 128
members+=(/dev/nvme0n1 /dev/nvme1n1p1 /dev/sda)
create --level raid5 >/dev/null
export EVENKEEL_LOG=debug
start
# What QEMU's drives say: they are new, and at 323 K.
until_status "drive: 0% used, .* written, on for 0 h, 50 °C"
told() { evenkeel status tank 2>/dev/null | grep -c 'drive: 0% used' || true; }
begun=$SECONDS
until (($(told) == 2)); do
    ((SECONDS - begun < 600)) || fail "$(told) drives tell how they are, not 2"
    sleep 0.1
done
evenkeel --json status tank >/run/status || true
same "where it is from" "$(grep -o '"source":"[^"]*"' /run/status | sort -u)" '"source":"nvme-log"'
! grep -q replace_at /run/status || fail "a drive that is not worn has a date"
grep "its health" /run/daemon.log
whole
stop
no_device_left
