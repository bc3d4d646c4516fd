/**
 * Data sets: digits ship inside a module (no file, no network, no permission); MNIST and CIFAR-10 are read from a folder
 * or a server.
 *
 * @module
 */
export { type Cifar, cifar, type CifarOptions } from "./cifar.ts";
export { type Digits, digits } from "./digits.ts";
export { type DownloadOptions, type DownloadProgress } from "./download.ts";
export { type Mnist, mnist, type MnistOptions } from "./mnist.ts";
