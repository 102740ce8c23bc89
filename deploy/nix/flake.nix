# Untried: Nix was not run. In a git checkout, `nix run ./deploy/nix -- --help` builds sobench from that checkout.
{
  description = "Benchmark for structured output of language-model servers";

  # Its Rust must be that of `rust-version` in Cargo.toml, or later.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";

  outputs =
    { nixpkgs, ... }:
    let
      manifest = nixpkgs.lib.importTOML ../../Cargo.toml;
      package =
        {
          lib,
          rustPlatform,
          installShellFiles,
        }:
        rustPlatform.buildRustPackage {
          pname = "sobench";
          inherit (manifest.workspace.package) version;
          src = ../..;
          cargoLock.lockFile = ../../Cargo.lock;
          cargoBuildFlags = [ "--package=sobench" "--bin=sobench" ];
          # The tests want Python, a network of their own and the whole checkout; CI runs them.
          doCheck = false;
          nativeBuildInputs = [ installShellFiles ];
          postInstall = ''
            for shell in bash fish zsh; do
              "$out/bin/sobench" completions "$shell" > "sobench.$shell"
            done
            installShellCompletion --cmd sobench --bash sobench.bash --fish sobench.fish --zsh sobench.zsh
            "$out/bin/sobench" man --output-dir man1
            installManPage man1/*.1
          '';
          meta = {
            inherit (manifest.package) description;
            license = lib.licenses.asl20;
            mainProgram = "sobench";
            platforms = lib.platforms.linux;
          };
        };
    in
    {
      packages = nixpkgs.lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (system: {
        default = nixpkgs.legacyPackages.${system}.callPackage package { };
      });
    };
}
