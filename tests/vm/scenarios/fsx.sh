# fsx in block mode: reads, writes, mappings, holes and flushes, each read compared
# program: fsx
# run: long
null_members 4 64
create --level raid5 >/dev/null
start

# exercise OPERATIONS BYTES: by so many, of multiples of so many bytes. Only whole blocks can be
# given back.
exercise() {
    cat >/run/fsx.toml <<END
flen = $((4 << 20))
blockmode = true
[opsize]
max = $((256 << 10))
align = $2
[weights]
truncate = 0
read = 10
write = 10
mapread = 5
mapwrite = 5
sendfile = 2
posix_fadvise = 10
invalidate = 1
fsync = 1
fdatasync = 1
punch_hole = $(($2 < 4096 ? 0 : 3))
END
    fsx -f /run/fsx.toml -P /run -S $RANDOM -N "$1" "$disk" >/run/fsx 2>&1 ||
        fail "$(tail -n 40 /run/fsx)"
}

for ((round = 1; round <= rounds; round++)); do
    say "round $round of $rounds: any bytes, blocks and holes"
    exercise 500 1
    exercise 500 4096
done

say "its server is killed meanwhile"
load exercise 200 4096
for crash in 1 2 3; do
    under_load 50
    kill_daemon
    start
done
unload

say "a member is missing"
evenkeel disk fail tank 1 >/dev/null
exercise 500 1
exercise 500 4096
stop
no_device_left
