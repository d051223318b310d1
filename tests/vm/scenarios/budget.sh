# the instructions that an I/O takes are what tests/vm/budget says
# machine: counted
# run: long
. /vm/measure.sh

# What has a part in them besides the sources. With another kernel, fio, compiler or emulator than
# the budget was measured with, a row can be off though nobody has changed anything: an update of
# Debian's must not stop every change from being taken. So the tolerance is wider then, which still
# shows what is badly wrong, until somebody measures the budget anew.
here="Linux $(</proc/sys/kernel/osrelease), $(fio --version), $(</vm/made-by)"
wanted=$(sed -n 's/^with //p' /vm/budget)
percent=2
if [[ $here != "$wanted" ]]; then
    percent=10
    echo "The budget was measured with $wanted."
    echo "This is                      $here."
    echo "Rows may be off by $percent % for that; to compare them strictly, measure the budget anew."
fi

# Lines of the budget: LEVEL CONSISTENCY HEALTH RW BS DEPTH COUNT INSTRUCTIONS, and options of fio.
array='' over=0
while read -r level consistency health rw bs depth count budget options; do
    [[ $level == raid* ]] || continue
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
    # What a row meets of what was done before it is not what an I/O takes: one that is off is
    # measured again.
    verdict=" instead of $budget"
    for _ in 1 2 3; do
        # shellcheck disable=SC2086
        measure "$rw" "$bs" "$depth" "$count" $options
        off=$((instructions * 100 - budget * 100))
        if ((${off#-} <= budget * percent)); then
            verdict=''
            break
        fi
    done
    [[ ! $verdict ]] || over=$((over + 1))
    echo "$level $consistency $health $rw $bs $depth $count $instructions $options$verdict"
done </vm/budget
[[ $array ]] || fail "the budget is empty"
stop >/dev/null
if ((over > 0)); then
    echo "$over differ by more than $percent %; if that is meant, put this into tests/vm/budget,"
    echo "and 'with $here'"
    exit 1
fi
