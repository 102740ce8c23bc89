# Untried: `brew` was not run. The workflow `release` fills in the words in capitals and attaches the formula to the
# release (docs/releasing.md).
class Sobench < Formula
  desc "Benchmark for structured output of language-model servers"
  homepage "https://github.com/OWNER/sobench"
  version "VERSION"
  license "Apache-2.0"

  depends_on :linux

  on_arm do
    url "https://github.com/OWNER/sobench/releases/download/vVERSION/sobench-VERSION-aarch64-linux.tar.gz"
    sha256 "SHA256_OF_AARCH64"
  end

  on_intel do
    url "https://github.com/OWNER/sobench/releases/download/vVERSION/sobench-VERSION-x86_64-linux.tar.gz"
    sha256 "SHA256_OF_X86_64"
  end

  def install
    bin.install "sobench"
    generate_completions_from_executable(bin/"sobench", "completions", shells: [:bash, :zsh, :fish])
    system bin/"sobench", "man", "--output-dir", buildpath/"man1"
    man1.install Dir["man1/*.1"]
  end

  test do
    flags = "--dataset choice --num-prompts 20 --output-len 8 --no-run-log --disable-tqdm"
    assert_match "enforced? yes: 20 of 20 answers valid", shell_output("#{bin}/sobench #{flags}")
  end
end
