# the instructions that an I/O takes are within 2 % of what tests/vm/budget says
# machine: counted
. /vm/measure.sh

# Lines of the budget: LEVEL CONSISTENCY HEALTH RW BS DEPTH COUNT INSTRUCTIONS.
array='' over=0
while read -r level consistency health rw bs depth count budget; do
    [[ $level && $level != \#* ]] || continue
    if [[ $array != "$level $consistency" ]]; then
        if [[ $array ]]; then
            stop >/dev/null
            drop_members
        fi
        array="$level $consistency" now=healthy
        # Four chunks of data in a stripe.
        case $level in
            raid5) timed_members 5 0 ;;
            raid6) timed_members 6 0 ;;
        esac
        serve_array --level "$level" --consistency "$consistency"
    fi
    if [[ $health != "$now" ]]; then
        evenkeel disk fail tank $((${#members[@]} - 1)) >/dev/null
        settle
        now=$health
    fi
    measure "$rw" "$bs" "$depth" "$count"
    verdict=''
    if ((instructions * 100 > budget * 102 || instructions * 100 < budget * 98)); then
        verdict=" instead of $budget"
        over=$((over + 1))
    fi
    echo "$level $consistency $health $rw $bs $depth $count $instructions$verdict"
done </vm/budget
[[ $array ]] || fail "the budget is empty"
stop >/dev/null
if ((over > 0)); then
    echo "$over differ; if that is meant, put what is measured into tests/vm/budget"
    exit 1
fi
