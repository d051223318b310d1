#!/bin/sh
# The root file system is unmounted: its arrays are stopped. What is in use stays, and this is called again.
(
    left=0
    for marker in /run/evenkeel/*.for-root; do
        [ -e "$marker" ] || continue
        array=${marker##*/}
        if evenkeel stop "${array%.for-root}"; then
            rm -f "$marker"
        else
            left=1
        fi
    done
    exit "$left"
)
