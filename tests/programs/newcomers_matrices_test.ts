/**
 * Linear algebra, spectra, complex numbers and functions of functions in the forms that newcomers try first.
 * Expected values are those that the left sides have in NumPy and PyTorch.
 */
import { Device, fft, grad, hessian, jacobian, jvp, scan, Tensor, vmap, whileLoop, windows } from "../../mod.ts";
import { checkForm, type Form, valuesOf } from "./reported.ts";

await Device.open(Device.default); // its library is no leak of the first test

const T = Tensor, F = (v: ConstructorParameters<typeof Tensor>[0]): Tensor => new T(v, { dtype: "float32" });
const A = F([[4, 1, 0.5], [1, 3, 0.25], [0.5, 0.25, 2]]), b = F([1, 2, 3]), M = F([[1, 2], [3, 4], [5, 7]]);
const z = new T([{ re: 1, im: 2 }, { re: -0.5, im: -1 }, { re: 0, im: 3 }]), s = T.arange(32).mul(0.7).sin();
const MATRICES: readonly Form[] = [
  ["np.linalg.solve(A,b)", () => A.solve(b), [-0.0735294, 0.570588, 1.44706]],
  ["np.linalg.solve(A,b)", () => A.solve([1, 2, 3]), [-0.0735294, 0.570588, 1.44706]],
  ["np.linalg.inv(A)", () => A.inv(), [[0.279412, -0.0882353, -0.0588235], [-0.0882353, 0.364706, -0.0235294], [
    -0.0588235,
    -0.0235294,
    0.517647,
  ]]],
  ["np.linalg.det(A)", () => A.det(), 21.25],
  ["np.linalg.slogdet(A)", () => A.slogdet(), [1, 3.05636]],
  ["np.linalg.eigvalsh(A)", () => A.eigvalsh(), [1.88168, 2.38676, 4.73156]],
  ["np.linalg.eigh(A)[0]", () => A.eigh()[0], [1.88168, 2.38676, 4.73156]],
  ["np.abs(np.linalg.eigh(A)[1])", () => A.eigh()[1].abs(), [[0.220239, 0.50303, 0.835737], [
    0.0210721,
    0.859028,
    0.511495,
  ], [0.975218, 0.0950405, 0.199791]]],
  ["np.linalg.eigh(A,UPLO='U')[0]", () => A.eigh({ uplo: "U" })[0], [1.88168, 2.38676, 4.73156]],
  ["np.sort(np.linalg.eigvals(A).real)", async () => (await A.eigvals()).real().sort()[0], [1.88168, 2.38676, 4.73156]],
  ["np.linalg.cholesky(A)", () => A.cholesky(), [[2, 0, 0], [0.5, 1.65831, 0], [0.25, 0.0753778, 1.3899]]],
  ["T.linalg.cholesky(tA,upper=True)", () => A.cholesky({ upper: true }), [[2, 0.5, 0.25], [0, 1.65831, 0.0753778], [
    0,
    0,
    1.3899,
  ]]],
  ["np.abs(np.linalg.qr(M)[1])", () => M.qr({ mode: "reduced" })[1].abs(), [[5.91608, 8.28251], [0, 0.632456]]],
  ["np.abs(np.linalg.qr(M)[1])", () => M.qr()[1].at([0, 2]).abs(), [[5.91608, 8.28251], [0, 0.632456]]],
  ["np.linalg.svd(M)[1]", () => M.svd()[1], [10.1914, 0.367138]],
  ["np.linalg.svd(M,full_matrices=False)[0].shape", () => M.svd({ fullMatrices: false })[0].shape, [3, 2]],
  ["np.linalg.svd(M)[0].shape", () => M.svd({ fullMatrices: true })[0].shape, [3, 3]],
  ["T.linalg.svd(tM)[0].shape", () => M.svd()[0].shape, [3, 3]],
  ["np.linalg.pinv(M)", () => M.pinv(), [[-2.07143, 0.785714, 0.142857], [1.5, -0.5, 5.47033e-09]]],
  ["np.linalg.lstsq(M,b,rcond=None)[0]", () => M.lstsq(b)[0], [-0.0714286, 0.5]],
  ["np.linalg.matrix_rank(M)", () => M.matrixRank(), 2],
  ["np.linalg.cond(A)", () => A.cond(), 2.51454],
  ["np.linalg.cond(A,1)", () => A.cond(1), 3.3],
  ["np.linalg.matrix_power(A,3)", () => A.matrixPower(3), [[77.75, 39.4375, 16.9062], [39.4375, 37.75, 9.57812], [
    16.9062,
    9.57812,
    10.6875,
  ]]],
  ["np.linalg.matrix_power(A,-2)", () => A.matrixPower(-2), [[0.0893166, -0.0554498, -0.0448097], [
    -0.0554498,
    0.141349,
    -0.0155709,
  ], [-0.0448097, -0.0155709, 0.271972]]],
  ["T.matrix_exp(tA/4)", () => A.div(4).matrixExp(), [[2.8168, 0.617854, 0.287997], [0.617854, 2.19476, 0.15237], [
    0.287997,
    0.15237,
    1.669,
  ]]],
  ["np.linalg.norm(M,'nuc')", () => M.norm("nuc"), 10.5586],
  ["np.linalg.norm(M,'fro')", () => M.norm("fro"), 10.198],
  ["np.linalg.norm(M,axis=1)", () => M.norm({ dim: 1 }), [2.23607, 5, 8.60233]],
  ["np.linalg.norm(M,axis=1)", () => M.norm(2, 1), [2.23607, 5, 8.60233]],
  ["np.linalg.norm(b,1)", () => b.norm(1), 6],
  ["np.linalg.norm(b,-np.inf)", () => b.norm(-Infinity), 1],
  ["T.linalg.solve_triangular(tA,tb[:,None],upper=False)", () => A.solveTriangular(b.unsqueeze(1), { upper: false }), [
    [0.25],
    [0.583333],
    [1.36458],
  ]],
  [
    "T.linalg.solve_triangular(tA,tb[:,None],upper=True,unitriangular=True)",
    () => A.solveTriangular(b.unsqueeze(1), { upper: true, unitriangular: true }),
    [[-1.75], [1.25], [3]],
  ],
  ["T.cholesky_solve(tb[:,None],T.linalg.cholesky(tA))", () => b.unsqueeze(1).choleskySolve(A.cholesky()), [
    [-0.0735294],
    [0.570588],
    [1.44706],
  ]],
  ["P,L,U=T.linalg.lu(tA); P@L@U", () => {
    const [p, l, u] = A.lu();
    return p.matmul(l).matmul(u);
  }, [[4, 1, 0.5], [1, 3, 0.25], [0.5, 0.25, 2]]],
  ["T.linalg.lu_solve(*T.linalg.lu_factor(tA),tb[:,None])", () => {
    const [LU, piv] = A.luFactor();
    return LU.luSolve(piv, b.unsqueeze(1));
  }, [[-0.0735294], [0.570588], [1.44706]]],
  ["T.linalg.multi_dot([tA,tM,tM.T])", () => A.multiDot([M, M.T]), [[40.5, 90.5, 156], [42.75, 96.75, 166.5], [
    43.25,
    97.75,
    168.25,
  ]]],
  ["T.logdet(tA)", () => A.logdet(), 3.05636],
  ["T.cdist(tM,tM)", () => M.cdist(M), [[0, 2.82843, 6.40312], [2.82843, 0, 3.60555], [6.40312, 3.60555, 0]]],
  ["x=tA.clone().requires_grad_(); T.linalg.inv(x).sum().backward(); x.grad", () => {
    const a = A.clone().detach();
    a.requiresGrad = true;
    a.inv().sum().backward();
    return a.grad;
  }, [[-0.0175173, -0.0334775, -0.0576125], [-0.0334775, -0.0639792, -0.110104], [-0.0576125, -0.110104, -0.189481]]],
  ["x=tA.clone().requires_grad_(); T.logdet(x).backward(); x.grad", () => grad((a) => a.logdet())(A), [
    [0.279412, -0.0882353, -0.0588235],
    [-0.0882353, 0.364706, -0.0235294],
    [-0.0588235, -0.0235294, 0.517647],
  ]],
  [
    "x=tM.clone().requires_grad_(); T.linalg.svdvals(x).sum().backward(); x.grad",
    () => grad((a) => a.svdvals().sum())(M),
    [[-0.639346, 0.720977], [0.562564, 0.201654], [0.524174, 0.662969]],
  ],
  [
    "x=tM.clone().requires_grad_(); T.linalg.pinv(x).square().sum().backward(); x.grad",
    () => grad((a) => a.pinv().square().sum())(M),
    [[30.9182, -22.0], [-11.2448, 8.00001], [-1.40817, 1.00001]],
  ],
  [
    "x=tA.clone().requires_grad_(); T.linalg.eigh(x)[0].prod().backward(); x.grad",
    () => grad((a) => a.eigh()[0].prod())(A),
    [[5.9375, -1.875, -1.25], [-1.875, 7.75, -0.499999], [-1.25, -0.499999, 11.0]],
  ],
  ["np.fft.ifft(np.fft.fft(z))", () => fft.ifft(fft.fft(z)), [{ "re": 1.0, "im": 2 }, { "re": -0.5, "im": -1 }, {
    "re": -3.97364e-08,
    "im": 3,
  }]],
  ["np.fft.fft2(np.arange(6).reshape(2,3))", () => fft.fft2(T.arange(6).reshape([2, 3])), [[{ "re": 15, "im": 0 }, {
    "re": -3,
    "im": 1.73205,
  }, { "re": -3, "im": -1.73205 }], [{ "re": -9, "im": 0 }, { "re": 0, "im": 0 }, { "re": 0, "im": 0 }]]],
  ["np.fft.fftn(np.arange(8).reshape(2,2,2),axes=(0,2))", () => fft.fftn(T.arange(8).reshape([2, 2, 2]), [0, 2]), [[[{
    "re": 10,
    "im": 0,
  }, { "re": -2, "im": 0 }], [{ "re": 18, "im": 0 }, { "re": -2, "im": 0 }]], [[{ "re": -8, "im": 0 }, {
    "re": 0,
    "im": 0,
  }], [{ "re": -8, "im": 0 }, { "re": 0, "im": 0 }]]]],
  [
    "np.fft.irfft2(np.fft.rfft2(np.arange(6).reshape(2,3)),s=(2,3))",
    () => fft.irfft2(fft.rfft2(T.arange(6).reshape([2, 3])), undefined, { s: [2, 3] }),
    [[0, 1, 2], [3, 4, 5]],
  ],
  ["np.fft.hfft([1,2,3])", () => fft.hfft(F([1, 2, 3])), [8, -2, 0, -2]],
  ["np.fft.fftfreq(5,0.1)", () => fft.fftfreq(5, { d: 0.1 }), [0, 2, 4, -4, -2]],
  ["np.fft.fftfreq(5,0.1)", () => fft.fftfreq(5, 0.1), [0, 2, 4, -4, -2]],
  ["np.fft.rfftfreq(6)", () => fft.rfftfreq(6), [0, 0.166667, 0.333333, 0.5]],
  ["np.fft.fftshift(np.arange(5))", () => fft.fftshift(T.arange(5)), [3, 4, 0, 1, 2]],
  ["np.fft.ifftshift(np.arange(6).reshape(2,3),axes=1)", () => fft.ifftshift(T.arange(6).reshape([2, 3]), 1), [[
    1,
    2,
    0,
  ], [4, 5, 3]]],
  ["T.hann_window(8)", () => windows.hann(8), [0, 0.146447, 0.5, 0.853553, 1, 0.853553, 0.5, 0.146446]],
  ["T.hann_window(8,periodic=False)", () => windows.hann(8, { periodic: false }), [
    0,
    0.188255,
    0.61126,
    0.950484,
    0.950484,
    0.611261,
    0.188255,
    0,
  ]],
  ["T.hamming_window(7)", () => windows.hamming(7), [0.08, 0.253195, 0.64236, 0.954446, 0.954446, 0.64236, 0.253195]],
  ["T.blackman_window(7)", () => windows.blackman(7), [
    -2.98023e-08,
    0.0904534,
    0.459183,
    0.920364,
    0.920364,
    0.459183,
    0.0904533,
  ]],
  ["T.bartlett_window(7)", () => windows.bartlett(7), [0, 0.285714, 0.571429, 0.857143, 0.857143, 0.571429, 0.285714]],
  ["T.kaiser_window(7,periodic=False,beta=8.)", () => windows.kaiser(7, { beta: 8, periodic: false }), [
    0.00233883,
    0.152011,
    0.652479,
    1,
    0.652479,
    0.152011,
    0.00233883,
  ]],
  ["np.convolve(s,[1,2,3])", () => {
    const n = 34;
    return fft.irfft(fft.rfft(s, -1, { n: 64 }).mul(fft.rfft(F([1, 2, 3]), -1, { n: 64 })), -1, { n: 64 }).at([0, n]);
  }, [
    0,
    0.644218,
    2.27389,
    4.76676,
    5.01776,
    2.90882,
    -0.568178,
    -3.77795,
    -5.2109,
    -4.19308,
    -1.20319,
    2.35258,
    4.8019,
    4.9928,
    2.83551,
    -0.655359,
    -3.83801,
    -5.21558,
    -4.14018,
    -1.1176,
    2.43062,
    4.83567,
    4.96643,
    2.76141,
    -0.742355,
    -3.89697,
    -5.21879,
    -4.08612,
    -1.03169,
    2.50796,
    4.86808,
    4.93866,
    3.08407,
    0.861158,
  ]],
  ["np.correlate(s,s[:4],'valid')", () => s.correlate(s.at([0, 4])), [
    2.13126,
    1.77466,
    0.583409,
    -0.882226,
    -1.93294,
    -2.07456,
    -1.24048,
    0.177013,
    1.51126,
    2.13473,
    1.75421,
    0.548655,
    -0.91494,
    -1.94822,
    -2.06523,
    -1.21092,
    0.212898,
    1.53659,
    2.1376,
    1.73326,
    0.513745,
    -0.947394,
    -1.96296,
    -2.05531,
    -1.18102,
    0.248722,
    1.56149,
    2.13986,
    1.71183,
  ]],
  ["np.abs(z)", () => z.abs(), [2.23607, 1.11803, 3]],
  ["np.angle(z)", () => z.angle(), [1.10715, -2.03444, 1.5708]],
  ["np.conj(z)", () => z.conj(), [{ "re": 1, "im": -2 }, { "re": -0.5, "im": 1 }, { "re": 0, "im": -3 }]],
  ["z.real", () => z.real(), [1, -0.5, 0]],
  ["z*z", () => z.mul(z), [{ "re": -3, "im": 4 }, { "re": -0.75, "im": 1 }, { "re": -9, "im": 0 }]],
  ["z/(1+1j)", () => z.div({ re: 1, im: 1 }), [{ "re": 1.5, "im": 0.5 }, { "re": -0.75, "im": -0.25 }, {
    "re": 1.5,
    "im": 1.5,
  }]],
  ["np.exp(z)", () => z.exp(), [{ "re": -1.1312, "im": 2.47173 }, { "re": 0.32771, "im": -0.510378 }, {
    "re": -0.989992,
    "im": 0.14112,
  }]],
  ["z**2", () => z.pow(2), [{ "re": -3, "im": 4 }, { "re": -0.75, "im": 1 }, { "re": -9, "im": 0 }]],
  ["z**0.5", () => z.sqrt(), [{ "re": 1.27202, "im": 0.786151 }, { "re": 0.555893, "im": -0.899454 }, {
    "re": 1.22474,
    "im": 1.22474,
  }]],
  ["np.log(z)", () => z.log(), [{ "re": 0.804719, "im": 1.10715 }, { "re": 0.111572, "im": -2.03444 }, {
    "re": 1.09861,
    "im": 1.5708,
  }]],
  ["z@np.conj(z)", () => z.dot(z.conj()), { "re": 15.25, "im": 0 }],
  ["np.vdot(z,z)", () => z.vdot(z), { "re": 15.25, "im": 0 }],
  ["np.outer(z,z)", () => z.outer(z), [[{ "re": -3, "im": 4 }, { "re": 1.5, "im": -2 }, { "re": -6, "im": 3 }], [
    { "re": 1.5, "im": -2 },
    { "re": -0.75, "im": 1 },
    { "re": 3, "im": -1.5 },
  ], [{ "re": -6, "im": 3 }, { "re": 3, "im": -1.5 }, { "re": -9, "im": 0 }]]],
  ["np.sum(z)", () => z.sum(), { "re": 0.5, "im": 4 }],
  ["z==z.conj()", () => z.eq(z.conj()), [false, false, false]],
  ["np.exp(1j*np.arange(3))", () => T.arange(3).mul({ re: 0, im: 1 }).exp(), [{ "re": 1, "im": 0 }, {
    "re": 0.540302,
    "im": 0.841471,
  }, { "re": -0.416147, "im": 0.909297 }]],
  ["T.polar(T.tensor([1.,2]),T.tensor([0.5,1]))", () => T.polar(F([1, 2]), F([0.5, 1])), [{
    "re": 0.877583,
    "im": 0.479426,
  }, { "re": 1.0806, "im": 1.68294 }]],
  [
    "x=T.tensor(z,requires_grad=True); (x.abs()**2).sum().backward(); x.grad",
    () => grad((x) => x.abs().square().sum())(z),
    [{ "re": 2, "im": 4 }, { "re": -1, "im": -2 }, { "re": 0, "im": 6 }],
  ],
  [
    "x=T.tensor(z,requires_grad=True); (x*x).real.sum().backward(); x.grad",
    () => grad((x) => x.mul(x).real().sum())(z),
    [{ "re": 2, "im": -4 }, { "re": -1, "im": 2 }, { "re": 0, "im": -6 }],
  ],
  [
    "x=T.tensor(z,requires_grad=True); T.fft.fft(x).abs().sum().backward(); x.grad",
    () => grad((x) => fft.fft(x).abs().sum())(z),
    [{ "re": 0.277371, "im": 1.65504 }, { "re": -0.31977, "im": -0.925967 }, { "re": 0.414503, "im": 2.24776 }],
  ],
  [
    "x=T.tensor(s,requires_grad=True); (T.fft.rfft(x).abs()**2)[3].backward(); x.grad",
    () => grad((x) => fft.rfft(x).abs().square().at(3))(s),
    [
      18.9385,
      13.9051,
      4.1848,
      -6.94603,
      -15.7356,
      -19.2214,
      -16.2283,
      -7.76536,
      3.315,
      13.278,
      18.7655,
      17.9279,
      11.0475,
      0.443418,
      -10.3101,
      -17.5885,
      -18.9385,
      -13.9051,
      -4.1848,
      6.94603,
      15.7356,
      19.2214,
      16.2283,
      7.76536,
      -3.315,
      -13.278,
      -18.7655,
      -17.9279,
      -11.0475,
      -0.443418,
      10.3101,
      17.5885,
    ],
  ],
  ["x=T.tensor(z,requires_grad=True); x.angle().sum().backward(); x.grad", () => grad((x) => x.angle().sum())(z), [
    { "re": -0.4, "im": 0.2 },
    { "re": 0.8, "im": -0.4 },
    { "re": -0.333333, "im": 0 },
  ]],
  [
    "np.linalg.eigvals(np.array([[0,-1],[1,0]],dtype=np.float32)).imag.round(3)",
    async () => (await F([[0, -1], [1, 0]]).eigvals()).imag(),
    [1, -1],
  ],
  ["np.roots([1,0,1])", async () => await F([1, 0, 1]).roots(), [{ "re": 0, "im": 1 }, { "re": 0, "im": -1 }]],
];
const FUNCTIONS: readonly Form[] = [
  ["T.func.jacrev(lambda x:x**3)(tb)", () => jacobian((x) => x.pow(3))(b), [[3, 0, 0], [0, 12, 0], [0, 0, 27]]],
  ["T.func.jacrev(lambda x,y:x*y,argnums=1)(tb,tb)", () => jacobian((x, y) => x.mul(y), { argnums: 1 })(b, b), [
    [1, 0, 0],
    [0, 2, 0],
    [0, 0, 3],
  ]],
  [
    "T.func.jacrev(lambda x,y:x*y,argnums=(0,1))(tb,tb)",
    () => jacobian((x, y) => x.mul(y), { argnums: [0, 1] })(b, b),
    [[[1, 0, 0], [0, 2, 0], [0, 0, 3]], [[1, 0, 0], [0, 2, 0], [0, 0, 3]]],
  ],
  ["T.func.hessian(lambda x:(x**3).sum())(tb)", () => hessian((x) => x.pow(3).sum())(b), [[6, 0, 0], [0, 12, 0], [
    0,
    0,
    18,
  ]]],
  ["T.func.hessian(lambda x:(tA@x)@x)(tb)", () => hessian((x) => A.matmul(x).dot(x))(b), [[8, 2, 1], [2, 6, 0.5], [
    1,
    0.5,
    4,
  ]]],
  ["T.func.vmap(lambda r:r.sum())(tM)", () => vmap((r) => r.sum())(M), [3, 7, 12]],
  ["T.func.vmap(lambda r:r*2,in_dims=1,out_dims=1)(tM)", () => vmap((r) => r.mul(2), { inAxes: 1, outAxes: 1 })(M), [
    [2, 4],
    [6, 8],
    [10, 14],
  ]],
  ["T.func.vmap(T.dot,in_dims=(0,None))(tM,tM[0])", () => vmap((r, q) => r.dot(q), { inAxes: [0, null] })(M, M.at(0)), [
    5,
    11,
    19,
  ]],
  ["T.func.vmap(T.func.grad(lambda x:x.sin().sum()))(tM)", () => vmap(grad((x) => x.sin().sum()))(M), [
    [0.540302, -0.416147],
    [-0.989992, -0.653644],
    [0.283662, 0.753902],
  ]],
  ["T.func.jvp(lambda x:x.sin(),(tb,),(T.ones(3),))", () => jvp((x) => x.sin(), [b], [T.ones([3])]), [[
    0.841471,
    0.909297,
    0.14112,
  ], [0.540302, -0.416147, -0.989992]]],
  ["T.func.vmap(T.func.jacrev(lambda x:x**2))(tM)", () => vmap(jacobian((x) => x.square()))(M), [[[2, 0], [0, 4]], [[
    6,
    0,
  ], [0, 8]], [[10, 0], [0, 14]]]],
  ["np.cumsum(b)", () => scan((c, v) => [c.add(v), c.add(v)], new T(0.0), b)[1], [1, 3, 6]],
  ["np.cumsum(b)", () => scan((c, v) => [c.add(v), c.add(v)], T.zeros([]), b)[1], [1, 3, 6]],
  ["8", () => whileLoop((i) => i.lt(8), (i) => i.add(1), new T(0)), 8],
  ["[16,4]", () => whileLoop(([i]) => i.lt(16), ([i, n]) => [i.mul(2), n.add(1)], [new T(1), new T(0)]), [16, 4]],
];

for (const [name, rows] of Object.entries({ "matrices and spectra": MATRICES, "functions of functions": FUNCTIONS })) {
  Deno.test(`newcomers: ${name}`, async () => {
    for (const [theirs, ours, value] of rows) checkForm(await valuesOf(ours()), value, theirs);
  });
}
