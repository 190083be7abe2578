#pragma once

// Texts of kernels, each with its struct Args; what they are for is said beside them.
namespace ebb::cuda {

extern const char* const kRowOf;
extern const char* const kTakeText;
extern const char* const kRowText;
extern const char* const kTargetText;
extern const char* const kUsualArgs;
extern const char* const kUsualRowText;
extern const char* const kScaledArgs;
extern const char* const kScaledRowText;
extern const char* const kPutScaledText;
extern const char* const kBiasText;

}  // namespace ebb::cuda
