#!/bin/sh
# Runs once, when the primary is created: its standby may connect.
set -eu
echo "host replication all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
