// Runs LLVMFuzzerTestOneInput as a plain test: on each corpus file, then on seeded mutations of
// them. The same inputs in the same order in every run; a crash names the input that caused it.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

namespace {

using Input = std::vector<uint8_t>;

constexpr uint64_t kSeed = 4791;          // fixed: a test that fails once fails again
constexpr size_t kInputBytesMax = 65536;  // longer than any frame or message that is parsed whole

// What runs now, for the message of a crash. Set before every input.
Input current;

// Leaves the input where it can be found again.
void PrintCurrent() {
  std::fprintf(stderr, "failing input (%zu bytes): ", current.size());
  for (uint8_t byte : current) std::fprintf(stderr, "%02x", byte);
  std::fprintf(stderr, "\n");
}

void OnCrash(int signal_number) {
  PrintCurrent();
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

void CatchCrashes() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_set_death_callback(PrintCurrent);
#endif
  for (int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
#ifdef __SANITIZE_ADDRESS__
    if (signal_number != SIGABRT) continue;  // the others have the sanitizer's own handler
#endif
    std::signal(signal_number, OnCrash);
  }
}

void Run(const Input& input) {
  current = input;
  // An allocation of exactly the input's size, so that asan sees a read past its end.
  std::vector<uint8_t> exact(input.begin(), input.end());
  exact.shrink_to_fit();
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

// Numbers that parsers stumble over, as one, two, four or eight bytes in network order.
void PutInterestingNumber(std::mt19937_64& random, Input& input) {
  static constexpr std::array<uint64_t, 10> kNumbers = {
      0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, 0xffffffffffffffff};
  const size_t width = size_t{1} << (random() % 4);
  if (input.size() < width) return;
  const uint64_t number = kNumbers[random() % kNumbers.size()];
  const size_t at = random() % (input.size() - width + 1);
  for (size_t i = 0; i < width; ++i) input[at + i] = number >> (8 * (width - 1 - i));
}

void Mutate(std::mt19937_64& random, const std::vector<Input>& corpus, Input& input) {
  switch (random() % 6) {
    case 0:
      if (!input.empty()) input[random() % input.size()] ^= 1 << (random() % 8);
      break;
    case 1:
      if (!input.empty()) input[random() % input.size()] = random();
      break;
    case 2:
      input.resize(random() % (input.size() + 1));
      break;
    case 3: {
      const size_t at = random() % (input.size() + 1);
      input.insert(input.begin() + at, 1 + random() % 16, random());
      break;
    }
    case 4: {  // the head of this input, the tail of another
      const Input& other = corpus[random() % corpus.size()];
      const size_t from = random() % (other.size() + 1);
      input.resize(std::min(input.size(), from));
      input.insert(input.end(), other.begin() + from, other.end());
      break;
    }
    default:
      PutInterestingNumber(random, input);
  }
  if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
}

void WriteXml(size_t corpus_files, size_t mutations) {
  const char* path = std::getenv("XML_OUTPUT_FILE");
  if (path == nullptr) return;
  std::ofstream file(path);
  file << "<testsuites><testsuite name=\"fuzz\">\n"
       << "<testcase classname=\"fuzz\" name=\"" << corpus_files << " corpus files\"/>\n"
       << "<testcase classname=\"fuzz\" name=\"" << mutations << " mutations\"/>\n"
       << "</testsuite></testsuites>\n";
}

}  // namespace

int main(int argc, char** argv) {
  CatchCrashes();
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  size_t mutations = 0;
  std::vector<Input> corpus;
  for (int i = 1; i < argc; ++i) {
    constexpr char kMutations[] = "--mutations=";
    if (std::strncmp(argv[i], kMutations, sizeof(kMutations) - 1) == 0) {
      mutations = std::strtoull(argv[i] + sizeof(kMutations) - 1, nullptr, 10);
      continue;
    }
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s: cannot be read\n", argv[i]);
      return 1;
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  const size_t corpus_files = corpus.size();
  for (const Input& input : corpus) Run(input);
  corpus.push_back({});
  Run(corpus.back());

  std::mt19937_64 random(kSeed);
  for (size_t i = 0; i < mutations; ++i) {
    Input input = corpus[random() % corpus.size()];
    for (uint64_t left = 1 + random() % 4; left > 0; --left) Mutate(random, corpus, input);
    Run(input);
  }
  std::printf("%zu corpus files and %zu mutations\n", corpus_files, mutations);
  WriteXml(corpus_files, mutations);
  return 0;
}
