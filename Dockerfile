# The three programs on Debian, for containers as nodes of a network (docs/backends.md).
#
#   docker build -t evenkeel:0.2.0 .
#
# Nothing but the base is pulled; where no registry can be reached, testbed/compose/base makes it.
# Compilers come from Debian, crates from crates.io.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
LABEL evenkeel.stage=build
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        ca-certificates cargo-web gcc libc6-dev rustc-web >/dev/null
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p evenkeel-apps -p evenkeel-router -p evenkeel-testbed \
    && strip target/release/evenkeel target/release/evenkeel-router target/release/evenkeel-testbed

FROM ${BASE}
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends iproute2 >/dev/null \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/evenkeel /src/target/release/evenkeel-router \
    /src/target/release/evenkeel-testbed /usr/local/bin/
