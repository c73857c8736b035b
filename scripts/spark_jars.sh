#!/bin/sh
# Fetches, into build/spark/jars, what Spark needs to reach an object store by s3a:// and what runs a small HDFS: tests
# archive to both. Of Amazon's kit only the parts that are used come, instead of its bundle of half a gigabyte.
# Prints the jars, separated by commas.
set -eu
cd "$(dirname "$0")/.."

HADOOP=3.5.0
SDK=2.35.4
STREAMS=1.3.1
JUNIT=5.11.4 # Hadoop's small cluster is made of its tests
export MAVEN_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" # it runs for a second or two

target=build/spark/jars-$HADOOP-$SDK-$JUNIT
mkdir -p build/spark
exec 9>build/spark/.jars-lock
flock 9
if [ ! -d "$target" ]; then
    scripts/maven.sh
    made=$(mktemp -d build/spark/jars.XXXXXX)
    dependency() {
        echo "<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version>${4:-}</dependency>"
    }
    alone="<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    {
        echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        echo '<groupId>msmq</groupId><artifactId>jars</artifactId><version>1</version><dependencies>'
        dependency org.apache.hadoop hadoop-aws $HADOOP "$alone"
        dependency software.amazon.s3.analyticsaccelerator analyticsaccelerator-s3 $STREAMS "$alone"
        dependency org.apache.hadoop hadoop-client-minicluster $HADOOP "$alone"
        dependency org.junit.jupiter junit-jupiter-api $JUNIT
        for part in s3 s3-transfer-manager sts; do
            dependency software.amazon.awssdk $part $SDK
        done
        echo '</dependencies></project>'
    } >"$made/pom.xml"
    mvn -q -B -f "$made/pom.xml" dependency:copy-dependencies -DoutputDirectory="$PWD/$made/jars" >&2
    rm -f "$made"/jars/slf4j-api-*.jar "$made"/jars/commons-logging-*.jar # Spark has its own
    mv "$made/jars" "$target"
    rm -rf "$made"
fi
find "$PWD/$target" -name '*.jar' | sort | tr '\n' ',' | sed 's/,$//'
