#!/bin/sh
# Run in an image's build: Debian packages that the base lacks, and the user that the image runs as.
set -eu
missing=
for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' ||
        missing="$missing $package"
done
if [ -n "$missing" ]; then
    apt-get -qq update
    # shellcheck disable=SC2086 # a list of names
    apt-get -qq install -y --no-install-recommends $missing >/dev/null
    rm -rf /var/lib/apt/lists/*
fi
grep -q ':65532:' /etc/passwd ||
    echo 'nonroot:x:65532:65532:nonroot:/tmp:/usr/sbin/nologin' >>/etc/passwd
grep -q ':65532:' /etc/group || echo 'nonroot:x:65532:' >>/etc/group
