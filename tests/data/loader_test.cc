// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "ebb/ebb.h"
#include "expect_error.h"

namespace ebb {
namespace {

using Numbers = std::vector<std::int64_t>;

std::vector<Numbers> epoch(DataLoader& loader) {
  std::vector<Numbers> all;
  for (const Batch& batch : loader) all.push_back(batch[0].to_vector<std::int64_t>());
  return all;
}

Numbers joined(const std::vector<Numbers>& batches) {
  Numbers all;
  for (const Numbers& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

// Items with a random number each, as augmentation would draw them.
DataLoader augmented(int workers, std::uint64_t seed = 3) {
  return DataLoader(50,
                    [](const Numbers& items) {
                      const auto n = static_cast<std::int64_t>(items.size());
                      return Batch{from_data(items, {n}), rand({n})};
                    },
                    {.batch_size = 8, .workers = workers, .seed = seed});
}

TEST(DataLoader, EveryRowComesOnceAnEpochWithItsPartner) {
  DataLoader loader({arange(10), arange(10) * 7}, {.batch_size = 4});
  EXPECT_EQ(loader.size(), 10);
  EXPECT_EQ(loader.batches(), 3);
  for (int e = 0; e < 3; ++e) {
    Numbers seen;
    std::vector<std::int64_t> sizes;
    for (const Batch& batch : loader) {
      const Numbers a = batch[0].to_vector<std::int64_t>(), b = batch[1].to_vector<std::int64_t>();
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(b[i], 7 * a[i]);
      seen.insert(seen.end(), a.begin(), a.end());
      sizes.push_back(batch[0].size(0));
    }
    EXPECT_EQ(sizes, (Numbers{4, 4, 2}));
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, arange(10).to_vector<std::int64_t>());
  }
}

TEST(DataLoader, RowsKeepTheirShapeAndDType) {
  const Tensor images = cast(arange(24), DType::u8);
  DataLoader loader({reshape(images, {4, 3, 2})}, {.batch_size = 3, .shuffle = false, .drop_last = true});
  EXPECT_EQ(loader.batches(), 1);
  const Batch batch = *loader.next();
  EXPECT_EQ(batch[0].shape(), Shape({3, 3, 2}));
  EXPECT_EQ(batch[0].dtype(), DType::u8);
  EXPECT_EQ(batch[0].to_vector<std::int64_t>(), arange(18).to_vector<std::int64_t>());
  EXPECT_FALSE(loader.next().has_value());
}

TEST(DataLoader, EpochsAndSeedsShuffleDifferently) {
  DataLoader a({arange(100)}, {.seed = 1}), b({arange(100)}, {.seed = 1}), c({arange(100)}, {.seed = 2});
  const auto first = joined(epoch(a));
  EXPECT_EQ(first, joined(epoch(b)));
  EXPECT_NE(first, joined(epoch(c)));
  EXPECT_NE(first, joined(epoch(a)));
  EXPECT_NE(first, arange(100).to_vector<std::int64_t>());
}

TEST(DataLoader, TheNumberOfWorkersDoesNotShow) {
  DataLoader alone = augmented(0);
  for (int workers : {1, 3}) {
    DataLoader loader = augmented(workers);
    alone.restore({3, 0, 0});
    for (int e = 0; e < 3; ++e) {
      for (;;) {
        EXPECT_EQ(alone.position(), loader.position());
        const auto a = alone.next(), b = loader.next();
        ASSERT_EQ(a.has_value(), b.has_value());
        if (!a) break;
        EXPECT_EQ((*a)[0].to_vector(), (*b)[0].to_vector());
        EXPECT_EQ((*a)[1].to_vector(), (*b)[1].to_vector());
      }
    }
  }
}

TEST(DataLoader, GoesOnFromASavedPosition) {
  for (int workers : {0, 1, 3}) {
    DataLoader loader = augmented(workers);
    for (int i = 0; i < 11; ++i) loader.next();  // into the second epoch
    const LoaderPosition here = loader.position();
    EXPECT_EQ(here, (LoaderPosition{3, 1, 3}));
    const auto rest = epoch(loader);
    const auto next_random = (*loader.next())[1].to_vector();

    DataLoader resumed = augmented(workers, 99);
    resumed.next();
    resumed.restore(here);
    EXPECT_EQ(epoch(resumed), rest);
    EXPECT_EQ((*resumed.next())[1].to_vector(), next_random);
    loader.restore(here);  // backwards, while workers are ahead
    EXPECT_EQ(epoch(loader), rest);
  }
}

TEST(DataLoader, TheCallersRandomNumbersAreLeftAlone) {
  manual_seed(4);
  const auto expected = rand({3}).to_vector();
  manual_seed(4);
  DataLoader loader = augmented(0);
  loader.next();
  EXPECT_EQ(rand({3}).to_vector(), expected);
}

TEST(DataLoader, AnErrorComesAtItsBatchAndTheBatchCanBeTriedAgain) {
  for (int workers : {0, 1, 3}) {
    std::atomic<bool> broken{true};
    DataLoader loader(10,
                      [&](const Numbers& items) {
                        if (broken && items[0] == 4) throw Error("the disk is on fire");
                        return Batch{from_data(items, {static_cast<std::int64_t>(items.size())})};
                      },
                      {.batch_size = 2, .shuffle = false, .workers = workers});
    EXPECT_EQ((*loader.next())[0].to_vector<std::int64_t>(), (Numbers{0, 1}));
    EXPECT_EQ((*loader.next())[0].to_vector<std::int64_t>(), (Numbers{2, 3}));
    EXPECT_THROW_MESSAGE(loader.next(), "the disk is on fire");
    EXPECT_THROW_MESSAGE(loader.next(), "the disk is on fire");
    broken = false;
    EXPECT_EQ((*loader.next())[0].to_vector<std::int64_t>(), (Numbers{4, 5}));
    EXPECT_EQ((*loader.next())[0].to_vector<std::int64_t>(), (Numbers{6, 7}));
  }
}

TEST(DataLoader, NothingToLoadIsFine) {
  for (int workers : {0, 2}) {
    DataLoader loader({zeros({0, 3})}, {.workers = workers});
    EXPECT_EQ(loader.batches(), 0);
    EXPECT_FALSE(loader.next().has_value());
    DataLoader dropped({zeros({3})}, {.batch_size = 4, .drop_last = true, .workers = workers});
    EXPECT_FALSE(dropped.next().has_value());
    DataLoader never({zeros({100})}, {.workers = workers});
  }
}

TEST(DataLoader, RefusesWhatMakesNoSense) {
  EXPECT_THROW_MESSAGE(DataLoader({zeros({3}), zeros({4})}), "tensors must have the same number of rows, got 3 and 4");
  EXPECT_THROW_MESSAGE(DataLoader(std::vector<Tensor>{}), "at least one tensor");
  EXPECT_THROW_MESSAGE(DataLoader({tensor(1.0)}), "must have rows");
  EXPECT_THROW_MESSAGE(DataLoader({zeros({3})}, {.batch_size = 0}), "batch_size must be positive, got 0");
  EXPECT_THROW_MESSAGE(DataLoader({zeros({3})}, {.workers = -1}), "workers must lie in [0, 1024], got -1");
  DataLoader loader({zeros({3})}, {.batch_size = 2});
  EXPECT_THROW_MESSAGE(loader.restore({0, 0, 3}), "batch 3 of epoch 0 does not exist, an epoch has 2 batches");
}

}  // namespace
}  // namespace ebb
