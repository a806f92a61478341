#!/bin/busybox sh
# As PID 1 a plain sleep would not react to SIGTERM: a signal without handler does not reach PID 1.
trap 'exit 0' TERM INT
/bin/busybox sleep infinity &
wait $!
