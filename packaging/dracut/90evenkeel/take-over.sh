#!/bin/sh
# Before the root file system is unmounted: processes that have files of it open are killed, so that of its
# arrays is replaced by one of the initramfs.

for marker in /run/evenkeel/*.for-root; do
    [ -e "$marker" ] || continue
    array=${marker##*/}
    evenkeel restart "${array%.for-root}"
done
