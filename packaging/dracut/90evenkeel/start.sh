#!/bin/sh
# Starts the arrays that the root file system is on, in the initramfs. It is called again and again until
# that is there, by a shell that has variables of its own.
(
    ARRAYS='' OPTIONS='' WAIT=30s
    . /etc/evenkeel/initramfs.conf
    modprobe -q ublk_drv
    for array in $ARRAYS; do
        [ ! -e "/run/evenkeel/$array.for-root" ] || continue
        # Its history is with its sockets: the root file system can't be written by what serves it while that
        # is being replaced.
        # shellcheck disable=SC2086
        if evenkeel --state-dir /run/evenkeel start --background --for-root --name "$array" --ublk \
            --wait "$WAIT" $OPTIONS; then
            # So that no service starts it again, and that its process is replaced by one that sees the root
            # file system.
            : >"/run/evenkeel/$array.for-root"
            wants=/run/systemd/system/sysinit.target.wants
            mkdir -p "$wants"
            ln -s /usr/lib/systemd/system/evenkeel-takeover@.service "$wants/evenkeel-takeover@$array.service"
        fi
    done
)
