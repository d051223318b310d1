#!/bin/sh
# The system goes back to the initramfs at shutdown, to unmount the root file system and stop its arrays.

need_shutdown
