#!/bin/sh
# A standby of $PRIMARY, known there as $STANDBY: copies it at the first start, then follows it until it is promoted.
# To bring back a server that was the primary before a failover, remove its data and start it with this script.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    if [ "$(id -u)" = 0 ]; then install -d -o postgres -m 700 "$PGDATA"; fi
    until pg_isready --quiet --host="$PRIMARY" --username=buddy; do sleep 1; done
    ${AS_POSTGRES-gosu postgres} pg_basebackup --dbname="host=$PRIMARY user=buddy application_name=$STANDBY" \
        --pgdata="$PGDATA" --write-recovery-conf --wal-method=stream --checkpoint=fast
fi
exec ${AS_POSTGRES-gosu postgres} postgres "$@"
