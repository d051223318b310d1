# how many instructions requests of a virtual machine take by vhost-user, beside ublk
# machine: counted
# program: vhost_load
. /vm/measure.sh

# vhost_rows ROW...: as `measured`, of the array's socket. Nobody sleeps with members without delay, so time is
# instructions.
vhost_rows() {
    local row work kib queues
    for row; do
        read -ra work <<<"${row#*:}"
        kib=${work[1]%[kM]}
        [[ ${work[1]} != *M ]] || kib=$((kib * 1024))
        queues=$((work[2] < 4 ? 1 : 4))
        instructions=$(vhost_load /run/tank.vhost "${work[0]#rand}" $((kib * 1024)) "${work[2]}" "$queues" "${work[3]}") ||
            fail "${row%:*}: vhost_load has failed"
        iops=$((1000000000 / instructions))
        found[vhost-user, ${row%:*}]="$iops $instructions"
        printf '%-28s %-44s %8s IOPS %9s instructions\n' vhost-user "${row%:*}" "$iops" "$instructions"
    done
}

rows=(
    "random reads 4K, depth 1:randread 4k 1 2000"
    "random reads 4K, depth 16:randread 4k 16 8000"
    "random reads 4K, depth 32:randread 4k 32 8000"
    "random reads 4K, depth 64:randread 4k 64 8000"
    "random writes 4K, depth 1:randwrite 4k 1 1500"
    "random writes 4K, depth 32:randwrite 4k 32 3000"
    "random reads 128K, depth 16:randread 128k 16 1000"
)
timed_members 5 0
starting=(--vhost=/run/tank.vhost)
serve_array --level raid5 --consistency bitmap
measured ublk "${rows[@]}"
vhost_rows "${rows[@]}"
# Once more, as what came first may have made it easier for what came then.
measured ublk "${rows[@]}"
stop >/dev/null
compared "The disk of a virtual machine" ublk vhost-user "${rows[@]}"
