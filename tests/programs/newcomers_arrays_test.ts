/**
 * Array programs in the forms that people who know NumPy try first: masks, places, sets, ranks, products, windows, lists.
 * Expected values are those that the left sides have in NumPy and PyTorch.
 */
import { Device, Tensor } from "../../mod.ts";
import { checkForm, type Form, valuesOf } from "./reported.ts";

await Device.open(Device.default); // its library is no leak of the first test

const T = Tensor, x = new T([[1, 2, 3], [4, 5, 6]], { dtype: "float32" });
const ARRAYS: readonly Form[] = [
  ["x[[0,1],[2,0]]", () => x.at(new T([0, 1]), new T([2, 0])), [3, 4]],
  ["x[np.ix_([1,0],[0,2])]", () => x.at(new T([[1], [0]]), new T([0, 2])), [[4, 6], [1, 3]]],
  ["y=x.copy(); y[y>3]=0; y", () => {
    const y = x.clone();
    y.setAt([y.gt(3)], 0);
    return y;
  }, [[1, 2, 3], [0, 0, 0]]],
  ["y=x.copy(); y[:,1]=[7,8]; y", () => {
    const y = x.clone();
    y.setAt([":", 1], [7, 8]);
    return y;
  }, [[1, 7, 3], [4, 8, 6]]],
  ["y=x.copy(); y[0]+=10; y", () => {
    const y = x.clone();
    y.at(0).addInPlace(10);
    return y;
  }, [[11, 12, 13], [4, 5, 6]]],
  ["y=x.copy(); y[...,-1]=np.array([9,9]); y", () => {
    const y = x.clone();
    y.setAt(["...", -1], new Float32Array([9, 9]));
    return y;
  }, [[1, 2, 9], [4, 5, 9]]],
  ["x[::-1,::2]", () => x.at([null, null, -1], [null, null, 2]), [[4, 6], [1, 3]]],
  ["x[-1,-2:]", () => x.at(-1, [-2, null]), [5, 6]],
  ["x.sum(axis=(-1,0))", () => x.sum([-1, 0]), 21],
  ["np.percentile(x,[25,50,75])", () => x.percentile([25, 50, 75]), [2.25, 3.5, 4.75]],
  ["np.percentile(x,[25,50],axis=0)", () => x.percentile([25, 50], 0), [[1.75, 2.75, 3.75], [2.5, 3.5, 4.5]]],
  ["np.percentile(x,30,axis=1,method='nearest')", () => x.percentile(30, 1, { interpolation: "nearest" }), [2, 5]],
  ["np.quantile(x,0.3,axis=-1,keepdims=True)", () => x.quantile(0.3, -1, { keepdim: true }), [[1.6], [4.6]]],
  ["np.median(x,axis=1)", () => x.median(1), [2, 5]],
  ["np.unique([3,1,2,3,1],return_counts=True)", () => new T([3, 1, 2, 3, 1]).unique({ returnCounts: true }), [
    [1, 2, 3],
    [2, 1, 2],
  ]],
  ["np.unique([3,1,2,3,1],return_inverse=True)", () => new T([3, 1, 2, 3, 1]).unique({ returnInverse: true }), [[
    1,
    2,
    3,
  ], [2, 0, 1, 2, 0]]],
  ["np.unique(np.array([[1,2],[1,2],[0,1]]),axis=0)", () => new T([[1, 2], [1, 2], [0, 1]]).unique({ dim: 0 }), [
    [0, 1],
    [1, 2],
  ]],
  ["np.intersect1d([1,2,3],[2,3,4])", () => new T([1, 2, 3]).intersect1d([2, 3, 4]), [2, 3]],
  ["np.setxor1d([1,2,3],[2,3,4])", () => new T([1, 2, 3]).setxor1d(new T([2, 3, 4])), [1, 4]],
  ["np.bincount([0,1,1,3])", () => new T([0, 1, 1, 3]).bincount(), [1, 2, 0, 1]],
  [
    "np.bincount([0,1,1,3],weights=[1.5,2,3,4],minlength=6)",
    () => new T([0, 1, 1, 3]).bincount({ weights: new T([1.5, 2, 3, 4]), minlength: 6 }),
    [1.5, 5, 0, 4, 0, 0],
  ],
  [
    "np.bincount([0,1,1,3],weights=[1.5,2,3,4],minlength=6)",
    () => new T([0, 1, 1, 3]).bincount({ weights: [1.5, 2, 3, 4], minlength: 6 }),
    [1.5, 5, 0, 4, 0, 0],
  ],
  ["np.histogram([1,2,1,4],bins=3)[0]", async () => (await new T([1, 2, 1, 4]).histogram(3))[0], [2, 1, 1]],
  [
    "np.searchsorted([1,3,5,7],[0,3,6],side='right')",
    () => new T([1, 3, 5, 7]).searchsorted(new T([0, 3, 6]), { side: "right" }),
    [0, 2, 3],
  ],
  [
    "np.searchsorted([1,3,5,7],[0,3,6],side='right')",
    () => new T([1, 3, 5, 7]).searchsorted([0, 3, 6], { right: true }),
    [0, 2, 3],
  ],
  ["np.searchsorted([1,3,5,7],4)", () => new T([1, 3, 5, 7]).searchsorted(4), 2],
  ["np.einsum('ii->i',np.arange(9).reshape(3,3))", () => T.einsum("ii->i", T.arange(9).reshape([3, 3])), [0, 4, 8]],
  ["np.einsum('ii',np.arange(9).reshape(3,3))", () => T.einsum("ii", T.arange(9).reshape([3, 3])), 12],
  [
    "np.einsum('...ij,...jk->...ik',np.ones((2,3,4)),np.ones((4,2)))",
    () => T.einsum("...ij,...jk->...ik", [T.ones([2, 3, 4]), T.ones([4, 2])]),
    [[[4, 4], [4, 4], [4, 4]], [[4, 4], [4, 4], [4, 4]]],
  ],
  ["np.einsum('i,j->',[1,2.],[3,4.])", () => T.einsum("i,j->", new T([1, 2]), new T([3, 4])), 21],
  [
    "np.einsum('bij , bjk -> bki',np.ones((2,2,3)),np.ones((2,3,2)))",
    () => T.einsum("bij , bjk -> bki", T.ones([2, 2, 3]), T.ones([2, 3, 2])),
    [[[3, 3], [3, 3]], [[3, 3], [3, 3]]],
  ],
  ["np.abs(x[:,None,:]-x[None,:,:]).sum(-1)", () => x.at(":", null).sub(x.at(null)).abs().sum(-1), [[0, 9], [9, 0]]],
  [
    "(x[:,None]==np.array([2,5,6])[None,:,None]).any(-1)",
    () => x.at(":", null).eq(new T([2, 5, 6]).reshape([1, 3, 1])).any(-1),
    [[true, false, false], [false, true, true]],
  ],
  ["np.where(x>3)", async () => (await x.gt(3).nonzero()).T, [[1, 1, 1], [0, 1, 2]]],
  ["np.argwhere(x>3)", () => x.gt(3).nonzero(), [[1, 0], [1, 1], [1, 2]]],
  ["np.where(x>3,x,-x)", () => T.where(x.gt(3), x, x.neg()), [[-1, -2, -3], [4, 5, 6]]],
  ["np.argsort(-x,axis=1)", () => x.neg().argsort(1), [[2, 1, 0], [2, 1, 0]]],
  ["np.argsort([3,1,2])", () => new T([3, 1, 2]).argsort(), [1, 2, 0]],
  ["np.take(x,[0,2],axis=1)", () => x.indexSelect(1, new T([0, 2])), [[1, 3], [4, 6]]],
  ["np.take(x,[0,2],axis=1)", () => x.indexSelect(1, [0, 2]), [[1, 3], [4, 6]]],
  ["np.roll(x,1,axis=1)", () => x.roll(1, 1), [[3, 1, 2], [6, 4, 5]]],
  ["np.roll(x,(1,-1),axis=(0,1))", () => x.roll([1, -1], [0, 1]), [[5, 6, 4], [2, 3, 1]]],
  ["np.rot90(x)", () => x.rot90(), [[3, 6], [2, 5], [1, 4]]],
  ["np.rot90(x,-1)", () => x.rot90(-1), [[4, 1], [5, 2], [6, 3]]],
  ["np.pad(x,((1,0),(0,2)),constant_values=5)", () => x.pad([[1, 0], [0, 2]], { value: 5 }), [[5, 5, 5, 5, 5], [
    1,
    2,
    3,
    5,
    5,
  ], [4, 5, 6, 5, 5]]],
  ["np.pad(x,1)", () => x.pad([1, 1, 1, 1]), [[0, 0, 0, 0, 0], [0, 1, 2, 3, 0], [0, 4, 5, 6, 0], [0, 0, 0, 0, 0]]],
  ["np.pad(x,((0,0),(1,1)),mode='reflect')", () => x.pad([[0, 0], [1, 1]], { mode: "reflect" }), [[2, 1, 2, 3, 2], [
    5,
    4,
    5,
    6,
    5,
  ]]],
  ["np.pad(x,((1,1),(2,1)),mode='edge')", () => x.pad([[1, 1], [2, 1]], { mode: "replicate" }), [
    [1, 1, 1, 2, 3, 3],
    [1, 1, 1, 2, 3, 3],
    [4, 4, 4, 5, 6, 6],
    [4, 4, 4, 5, 6, 6],
  ]],
  ["np.pad(x,((0,0),(1,1)),mode='wrap')", () => x.pad([[0, 0], [1, 1]], { mode: "circular" }), [[3, 1, 2, 3, 1], [
    6,
    4,
    5,
    6,
    4,
  ]]],
  ["np.tile([1,2],3)", () => new T([1, 2]).tile(3), [1, 2, 1, 2, 1, 2]],
  ["np.repeat([1,2],3)", () => new T([1, 2]).repeatInterleave(3), [1, 1, 1, 2, 2, 2]],
  ["np.repeat([1,2],[2,3])", () => new T([1, 2]).repeatInterleave(new T([2, 3])), [1, 1, 2, 2, 2]],
  ["np.repeat([1,2],[2,3])", () => new T([1, 2]).repeatInterleave([2, 3]), [1, 1, 2, 2, 2]],
  ["np.split(np.arange(6),3)", () => T.arange(6).split(2), [[0, 1], [2, 3], [4, 5]]],
  ["np.array_split(np.arange(7),3)", () => T.arange(7).tensorSplit(3), [[0, 1, 2], [3, 4], [5, 6]]],
  ["np.split(np.arange(6),[2,5])", () => T.arange(6).tensorSplit([2, 5]), [[0, 1], [2, 3, 4], [5]]],
  ["np.stack([[1,2],[3,4]],axis=-1)", () => T.stack([new T([1, 2]), new T([3, 4])], -1), [[1, 3], [2, 4]]],
  ["np.meshgrid([1,2],[3,4,5],indexing='ij')", () => new T([1, 2]).meshgrid([new T([3, 4, 5])], { indexing: "ij" }), [[[
    1,
    1,
    1,
  ], [2, 2, 2]], [[3, 4, 5], [3, 4, 5]]]],
  ["np.meshgrid([1,2],[3,4,5])", () => new T([1, 2]).meshgrid([new T([3, 4, 5])], { indexing: "xy" }), [[
    [1, 2],
    [1, 2],
    [1, 2],
  ], [[3, 3], [4, 4], [5, 5]]]],
  ["np.linspace(0,1,5,endpoint=False)", () => T.linspace(0, 1, 6).at([0, -1]), [0, 0.2, 0.4, 0.6, 0.8]],
  ["np.arange(5,0,-1)", () => T.arange(5, 0, -1), [5, 4, 3, 2, 1]],
  ["np.arange(0,1,0.25)", () => T.arange(0, 1, 0.25), [0, 0.25, 0.5, 0.75]],
  ["np.eye(3,k=1)", () => T.ones([3]).diag().roll(1, 1).triu(), [[0, 1, 0], [0, 0, 1], [0, 0, 0]]],
  ["np.tri(3)", () => T.ones([3, 3]).tril(), [[1, 0, 0], [1, 1, 0], [1, 1, 1]]],
  ["np.triu(np.ones((3,4)),k=-1)", () => T.ones([3, 4]).triu(-1), [[1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]]],
  ["np.diag([1,2],k=1)", () => new T([1, 2]).diag(1), [[0, 1, 0], [0, 0, 2], [0, 0, 0]]],
  ["np.diagonal(x,offset=1)", () => x.diagonal({ offset: 1 }), [2, 6]],
  ["np.trace(x[:,:2])", () => x.at(":", [0, 2]).trace(), 6],
  ["np.cumsum(x)", () => x.flatten().cumsum(), [1, 3, 6, 10, 15, 21]],
  ["np.cumsum(x,axis=-1)", () => x.cumsum(-1), [[1, 3, 6], [4, 9, 15]]],
  ["np.cumprod(x,axis=0)", () => x.cumprod(0), [[1, 2, 3], [4, 10, 18]]],
  ["np.diff(x,n=2,axis=1)", () => x.diff({ n: 2 }), [[0], [0]]],
  ["np.diff(x,prepend=0)", () => x.diff({ prepend: T.zeros([2, 1]) }), [[1, 1, 1], [4, 1, 1]]],
  [
    "np.gradient([1.,2,4,7])",
    () =>
      T.cat([
        new T([1.0]),
        new T([1., 2, 4, 7]).unfold(0, 3, 1).at(":", [null, null, 2]).diff().flatten().div(2),
        new T([3.0]),
      ]),
    [1, 1.5, 2.5, 3],
  ],
  ["np.corrcoef(x)", () => x.corrcoef(), [[1, 1], [1, 1]]],
  ["np.cov(x)", () => x.cov(), [[1, 1], [1, 1]]],
  ["np.var(x,ddof=1)", () => x.var(), 3.5],
  ["np.std(x,axis=1,ddof=0)", () => x.std(1, { correction: 0 }), [0.816497, 0.816497]],
  ["np.clip(x,None,3)", () => x.clip(null, 3), [[1, 2, 3], [3, 3, 3]]],
  ["np.clip(x,2,None)", () => x.clip(2), [[2, 2, 3], [4, 5, 6]]],
  ["np.round(x/3,2)", () => x.div(3).round({ decimals: 2 }), [[0.33, 0.67, 1], [1.33, 1.67, 2]]],
  ["np.floor_divide(x,-2)", () => x.floorDiv(-2), [[-1, -1, -2], [-2, -3, -3]]],
  ["np.mod(-x,3)", () => x.neg().mod(3), [[2, 1, 0], [2, 1, 0]]],
  ["np.fmod(-x,3)", () => x.neg().fmod(3), [[-1, -2, 0], [-1, -2, 0]]],
  ["x.min(axis=0)", () => x.min(0), [1, 2, 3]],
  ["x.max(axis=(0,1))", () => x.max([0, 1]), 6],
  ["x.argmax()", () => x.argmax(), 5],
  ["np.unravel_index(4,(2,3))", () => new T(4).unravelIndex([2, 3]), [1, 1]],
  ["np.ravel_multi_index(([0,1],[2,1]),(2,3))", () => new T([0, 1]).mul(3).add([2, 1]), [2, 4]],
  ["np.nanmean([1,np.nan,3])", () => new T([1, NaN, 3]).nanmean(), 2],
  [
    "np.nan_to_num([np.nan,np.inf,-np.inf],nan=1,posinf=2,neginf=3)",
    () => new T([NaN, Infinity, -Infinity]).nanToNum({ nan: 1, posinf: 2, neginf: 3 }),
    [1, 2, 3],
  ],
  ["np.kron([1,2],[3,4])", () => new T([1, 2]).kron(new T([3, 4])), [3, 4, 6, 8]],
  ["np.tensordot(x,x,axes=([1],[1]))", () => x.tensordot(x, [[1], [1]]), [[14, 32], [32, 77]]],
  ["np.tensordot(x,x.T,axes=1)", () => x.tensordot(x.T, 1), [[14, 32], [32, 77]]],
  ["np.cross([1,0,0],[0,1,0])", () => new T([1, 0, 0]).cross(new T([0, 1, 0])), [0, 0, 1]],
  ["np.matmul(np.ones((2,1,2,3)),np.ones((4,3,2))).shape", () => T.ones([2, 1, 2, 3]).matmul(T.ones([4, 3, 2])).shape, [
    2,
    4,
    2,
    2,
  ]],
  ["x.reshape(-1)", () => x.reshape(-1), [1, 2, 3, 4, 5, 6]],
  ["x.transpose()", () => x.transpose(), [[1, 4], [2, 5], [3, 6]]],
  ["t.expand(4,-1,-1).shape", () => x.expand([4, -1, -1]).shape, [4, 2, 3]],
  ["np.squeeze(x[None,:,None]).shape", () => x.at(null, ":", null).squeeze().shape, [2, 3]],
  ["t[None,:,None].squeeze((0,2)).shape", () => x.at(null, ":", null).squeeze([0, 2]).shape, [2, 3]],
  ["np.moveaxis(np.ones((2,3,4)),[0,1],[-1,-2]).shape", () => T.ones([2, 3, 4]).movedim([0, 1], [-1, -2]).shape, [
    4,
    3,
    2,
  ]],
  [
    "np.lexsort(([1,2,1],[3,1,3]))",
    () => new T([1, 2, 1]).argsort().at(new T([3, 1, 3]).at(new T([1, 2, 1]).argsort()).argsort()),
    [1, 0, 2],
  ],
  ["np.add.at(y:=np.zeros(3),[0,0,2],1); y", () => T.zeros([3]).indexAdd(0, new T([0, 0, 2]), T.ones([3])), [2, 0, 1]],
  [
    "y=torch.zeros(3); y.index_put_((torch.tensor([0,0,2]),),torch.tensor(1.),accumulate=True); y",
    () => T.zeros([3]).indexPut([new T([0, 0, 2])], new T(1.0), { accumulate: true }),
    [2, 0, 1],
  ],
  ["np.array([1,2,3])/2", () => new T([1, 2, 3]).div(2), [0.5, 1, 1.5]],
  ["np.array([1,2,3])//2", () => new T([1, 2, 3]).floorDiv(2), [0, 1, 1]],
  ["np.array([True,False])+1", () => new T([true, false]).add(1), [2, 1]],
  ["np.array([True,False]).sum()", () => new T([true, false]).sum(), 1],
  ["np.array([[1,2],[3,4]])@np.array([5,6])", () => new T([[1, 2], [3, 4]]).matmul([5, 6]), [17, 39]],
  ["np.array([[1,2],[3,4]])*np.array([5,6])", () => new T([[1, 2], [3, 4]]).mul([5, 6]), [[5, 12], [15, 24]]],
  ["np.array([1,2])+np.array([1.5,2.5])", () => new T([1, 2]).add(new Float32Array([1.5, 2.5])), [2.5, 4.5]],
  ["np.array([0,1,2])", () => new T(new Uint8Array([0, 1, 2])), [0, 1, 2]],
  ["np.array([[1,2],[3,4]])", () => new T([new Float32Array([1, 2]), new Float32Array([3, 4])]), [[1, 2], [3, 4]]],
  ["np.array([[1,2],[3,4]])", () => new T([new T([1, 2]), new T([3, 4])]), [[1, 2], [3, 4]]],
  [
    "np.isclose([1,np.nan],[1+1e-9,np.nan],equal_nan=True)",
    () => new T([1, NaN]).isclose(new T([1, NaN]), { equalNan: true }),
    [true, true],
  ],
  ["np.digitize([0.5,1.5,9],[0,1,2])", () => new T([0.5, 1.5, 9]).digitize([0, 1, 2]), [1, 2, 3]],
  ["np.apply_along_axis(lambda r:r[0]+r[-1],1,x)", () => x.at(":", 0).add(x.at(":", -1)), [4, 10]],
  ["x.sum(where=x>2)", () => x.gt(2).where(x, 0).sum(), 18],
  ["np.lib.stride_tricks.sliding_window_view(np.arange(6),3).sum(1)", () => T.arange(6).unfold(0, 3, 1).sum(1), [
    3,
    6,
    9,
    12,
  ]],
  ["torch.triu_indices(3,3,offset=1)", () => T.triuIndices(3, 3, { offset: 1 }), [[0, 0, 1], [1, 2, 2]]],
  ["torch.combinations(torch.tensor([1,2,3]))", () => new T([1, 2, 3]).combinations(), [[1, 2], [1, 3], [2, 3]]],
  [
    "torch.cartesian_prod(torch.tensor([1,2]),torch.tensor([3,4]))",
    () => new T([1, 2]).cartesianProd([new T([3, 4])]),
    [[1, 3], [1, 4], [2, 3], [2, 4]],
  ],
  ["np.polyfit([0,1,2,3],[1,3,7,13],2)", () => T.arange(4).polyfit([1, 3, 7, 13], 2), [1.0, 1.0, 1.0]],
  ["np.interp([0.5,1.5],[0,1,2],[10,20,15])", () => new T([0.5, 1.5]).interp([0, 1, 2], [10, 20, 15]), [15, 17.5]],
  ["np.convolve([1,2,3],[0,1,0.5],'same')", () => new T([1, 2, 3]).convolve([0, 1, 0.5], { mode: "same" }), [
    1,
    2.5,
    4,
  ]],
  ["torch.topk(t,2)", () => x.topk(2), [[[3, 2], [6, 5]], [[2, 1], [2, 1]]]],
  ["torch.topk(t,1,dim=0,largest=False)", () => x.topk(1, 0, { largest: false }), [[[1, 2, 3]], [[0, 0, 0]]]],
  [
    "torch.scatter_add(torch.zeros(2,3),1,torch.tensor([[0,0,1],[2,2,2]]),t)",
    () => T.zeros([2, 3]).scatterAdd(1, new T([[0, 0, 1], [2, 2, 2]]), x),
    [[3, 3, 0], [0, 0, 15]],
  ],
  [
    "torch.scatter_reduce(torch.zeros(3),0,torch.tensor([0,0,1]),torch.tensor([1.,5,2]),reduce='mean')",
    () => T.zeros([3]).scatterReduce(0, new T([0, 0, 1]), new T([1., 5, 2]), "mean"),
    [2, 1, 0],
  ],
  ["F.one_hot(torch.tensor([0,2]))", () => new T([0, 2]).oneHot(3), [[1, 0, 0], [0, 0, 1]]],
  ["torch.logsumexp(t,dim=(0,1))", () => x.logsumexp([0, 1]), 6.45619],
  ["torch.all(t>0,dim=1)", () => x.gt(0).all(1), [true, true]],
  ["torch.std_mean(t,dim=1)", () => x.stdMean(1), [[1, 1], [2, 5]]],
  ["torch.var_mean(t,dim=0,correction=0)", () => x.varMean(0, { correction: 0 }), [[2.25, 2.25, 2.25], [
    2.5,
    3.5,
    4.5,
  ]]],
];

Deno.test("newcomers: arrays as NumPy's", async () => {
  for (const [theirs, ours, value] of ARRAYS) checkForm(await valuesOf(ours()), value, theirs);
});
