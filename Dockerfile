# sobench and nothing else: no shell, no root. `docker build -t sobench .`, then `docker run --rm --network host sobench --base-url URL ...`
ARG RUST_VERSION=1.88
FROM rust:${RUST_VERSION}-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --bin sobench && install -D target/release/sobench /out/sobench && install -d -o 65532 -g 65532 /out/work

# glibc, libgcc, libstdc++ and certificates, of the same Debian as above.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /out/sobench /usr/local/bin/sobench
# A folder of its own to write into: mount one here to keep run logs and results.
COPY --from=build --chown=65532:65532 /out/work /work
WORKDIR /work
USER 65532:65532
ENV XDG_CACHE_HOME=/work/.cache
ENTRYPOINT ["/usr/local/bin/sobench"]
CMD ["--help"]
