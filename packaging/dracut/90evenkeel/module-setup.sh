#!/bin/bash
# A module of dracut: the initramfs starts the arrays that the root file system is on, if
# /etc/evenkeel/initramfs.conf says that there are any.

# shellcheck disable=SC2154
config=$dracutsysrootdir/etc/evenkeel/initramfs.conf

check() {
    require_binaries evenkeel || return 1
    [[ -e $config ]] || return 255
}

depends() {
    echo rootfs-block udev-rules shutdown
}

installkernel() {
    hostonly='' instmods ublk_drv
}

install() {
    inst_multiple evenkeel mkdir ln
    inst_simple /etc/evenkeel/initramfs.conf
    inst_rules 63-evenkeel.rules
    inst_hook initqueue/settled 10 "$moddir/start.sh"
    inst_hook cleanup 90 "$moddir/need-shutdown.sh"
    inst_hook pre-shutdown 30 "$moddir/take-over.sh"
    inst_hook shutdown 30 "$moddir/stop.sh"
    dracut_need_initqueue
}
