/**
 * The namespace `nn.data`: data sets, the order in which their items come, and batches of them.
 *
 * @module
 */
export { collate, type Collated, type CollatedPart } from "./collate.ts";
export { ConcatDataset, type Dataset, type DatasetLike, randomSplit, Subset, TensorDataset } from "./dataset.ts";
export { DataLoader, type DataLoaderOptions } from "./loader.ts";
export {
  BatchSampler,
  DistributedSampler,
  type DistributedSamplerOptions,
  RandomSampler,
  type RandomSamplerOptions,
  Sampler,
  SequentialSampler,
  SubsetRandomSampler,
  WeightedRandomSampler,
} from "./samplers.ts";
