#!/bin/sh
# Run in an image's build: install.sh NAME [PACKAGE…]
# Puts the packages of images/NAME/requirements.txt into /opt/python, the project's own PACKAGEs into
# /app, and makes bytecode of all, for the image's root is read-only. The checkout is at /context.
set -eu
name=$1
shift
mkdir -p /opt/python /app
if [ -d /context/prepared ]; then
    cp -R --preserve=mode,timestamps /context/prepared/. /opt/python/
else
    python3 -m pip install --quiet --no-cache-dir --no-deps --only-binary :all: --no-compile \
        --root-user-action ignore --target /opt/python -r "/context/images/$name/requirements.txt"
fi
rm -rf /opt/python/bin /opt/python/.lock
for package in "$@"; do
    cp -R --preserve=mode,timestamps "/context/operator/$package" /app/
done
find /app -name __pycache__ -prune -exec rm -rf {} +
chmod -R a+rX,go-w /app /opt/python
standard=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
python3 -m compileall -qq -j 0 -x '/(test|tests|idlelib|lib2to3|dist-packages|site-packages)/' \
    "$standard" /opt/python /app
