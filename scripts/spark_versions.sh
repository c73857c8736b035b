#!/bin/sh
# Tries the data source and the pipelines with the versions of Spark that are supported beside the one of the tests: each
# is installed in a folder of its own under build/spark, all else is that of the environment; with table formats where a
# release of theirs is made for that Spark.
# spark_versions.sh [VERSION...]
set -eu
cd "$(dirname "$0")/.."

DELTA=4.4.0
ICEBERG=1.12.0 # whose releases are made for Spark 4.1

[ $# -gt 0 ] || set -- 4.0.5 4.1.4 4.2.1
PYTHON=${PYTHON:-$PWD/.venv/bin/python}
export MAVEN_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" # it runs for a second or two

# A jar of Maven Central, by its coordinates; prints the file.
jar() {
    name=$(printf '%s' "$1" | cut -d: -f2,3 | tr : -).jar
    if [ ! -f "build/spark/formats/$name" ]; then
        scripts/maven.sh
        mvn -q -B dependency:copy -Dartifact="$1" -DoutputDirectory="$PWD/build/spark/formats" >&2
    fi
    printf '%s' "$PWD/build/spark/formats/$name"
}

mkdir -p build/spark
for version in "$@"; do
    exec 9>build/spark/.versions-lock
    flock 9 # while something is made or fetched
    target=$PWD/build/spark/pyspark-$version
    if [ ! -f "$target/.made" ]; then
        rm -rf "$target"
        # Spark comes as source; to compress hundreds of megabytes in order to unpack them would take most of the time.
        "$PYTHON" -m pip --disable-pip-version-check -qq install --no-compile --no-build-isolation \
            --config-settings=--build-option=--compression=stored --target "$target" "pyspark==$version"
        touch "$target/.made"
    fi
    short=${version%.*}
    MSMQ_TEST_JARS="$(jar "io.delta:delta-spark_${short}_2.13:$DELTA"),$(jar "io.delta:delta-storage:$DELTA")"
    formats=delta
    if [ "$short" = 4.1 ]; then
        formats="delta iceberg"
        MSMQ_TEST_JARS="$MSMQ_TEST_JARS,$(jar "org.apache.iceberg:iceberg-spark-runtime-${short}_2.13:$ICEBERG")"
    fi
    exec 9>&-
    export MSMQ_TEST_JARS
    # shellcheck disable=SC2086 # the formats are words
    PYTHONPATH=$target:$PWD/src "$PYTHON" -m tests.spark.smoke $formats
done
