/**
 * Bessel functions of orders 0 and 1, Airy's function and Hurwitz's zeta function as graphs. In and out: nodes of float32 or
 * float64, as in numeric.ts. Near 0 they are polynomials beside what is singular there; far from it
 * amplitudes, which are polynomials of 1 / x, times waves or exponentials. Polynomials are our own
 * Chebyshev interpolants (computed with 60 digits), in powers of what each names.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { GradientArg, slope, withGradient } from "../../uop/graph/given_gradient.ts";
import {
  absNode,
  coefficients,
  expNode,
  floatConst,
  floorNode,
  horner,
  logNode,
  lt,
  over,
  pick,
  type Poly,
  poly,
  roundNode,
  scale,
  shift,
  signOf,
} from "../nodes/numeric.ts";
import { leadNode, powNode } from "../nodes/power.ts";
import { select } from "../nodes/special_nodes.ts";
import { i0Node, i1Node, ratio } from "./distribution_nodes.ts";

/** The first roots of J0, squared. */
const J0_ROOTS: readonly number[] = [5.7831859629467845212, 30.471262343662086399];
/** The first roots of J1, squared. */
const J1_ROOTS: readonly number[] = [14.681970642123893257, 49.21845632169460367];
/** J0(x) / ((x^2 - a) (x^2 - b)) in x^2 / 32 - 1, |x| <= 8; a and b are its first roots, squared. */
const J0_NEAR: Poly = coefficients(
  `0.0011434937747 -0.00211979428957 0.00156364314861 -0.000641539062909 0.000169772134957 -3.15734350954e-5
   4.36657464088e-6 -4.67690656441e-7 4.0396707307e-8 -2.81698837195e-9`,
  `0.0011434937743762545628 -0.002119794289479691997 0.0015636431645931662061 -0.00064153906464061231437
   0.00016977200713997842856 -3.1573425402235442452e-5 4.3669323246406835742e-6 -4.6771280213007450545e-7
   3.9988393454724772489e-8 -2.7948629678329128096e-9 1.6276489491806398863e-10 -8.0234726019332576019e-12
   3.3923298937104674879e-13 -1.2482967042743654592e-14 4.006894801372051649e-16`,
);
/** J1(x) / (x (x^2 - a) (x^2 - b)), alike. */
const J1_NEAR: Poly = coefficients(
  `0.000194989369871 -0.000269752274675 0.000158600167377 -5.40800323288e-5 1.22421785849e-5 -1.98909386313e-6
   2.44238423543e-7 -2.3521129233e-8 1.84261346167e-9 -1.17762002538e-10`,
  `0.0001949893698589562356 -0.00026975227467163680635 0.00015860016799369872552 -5.4080032390855056924e-5
   1.2242173653015609048e-5 -1.989093515914256745e-6 2.442522260752042082e-7 -2.3521922545778520863e-8
   1.8268547695321332609e-9 -1.1696932521783475052e-10 6.2847338279296074903e-12 -2.8755308685588519727e-13
   1.1343125416873432869e-14 -3.9104228826133378375e-16 1.1811464627253290001e-17`,
);
/** Y0(x) - 2 / pi log(x) J0(x), alike. */
const Y0_NEAR: Poly = coefficients(
  `-0.382250654301 -0.828435890413 1.64709646748 0.144126325158 -1.07754760092 0.672177066628 -0.218958037757
   0.0463670878329 -0.00702464871465 0.000806091723519 -7.3765034363e-5 5.37476586223e-6`,
  `-0.38225065445942501625 -0.8284358903604587734 1.6470964788745466731 0.14412632369302442102 -1.0775477338215995184
   0.67217707834317233452 -0.21895747096171628603 0.046367047681347097779 -0.0070257410572709699712
   0.00080615860605506437158 -7.2795418824541151521e-5 5.3213186337351155526e-6 -3.2185078445935925338e-7
   1.639106526826048711e-8 -7.1304614653678900162e-10 2.6818221378477358886e-11 -8.8401120960731007e-13
   2.5580394363929220027e-14`,
);
/** (Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x, alike. */
const Y1_NEAR: Poly = coefficients(
  `0.0707598588276 -0.243377430794 0.0233675712558 0.235072092122 -0.196398393173 0.0785478687818 -0.0196287799755
   0.00342249225025 -0.000443772738328 4.46718141095e-5 -3.64060162555e-6 2.40060201565e-7`,
  `0.070759858821180053319 -0.24337743079193113792 0.023367571720993584581 0.23507209206669754488
   -0.19639839859930425001 0.078547869222425314931 -0.01962875683309942391 0.0034224907399188496958
   -0.00044381734351149873876 4.4674330126463649393e-5 -3.6009998743578151936e-6 2.3804930420514177979e-7
   -1.3153322551127246259e-8 6.1696880290669647844e-10 -2.4887509903377127331e-11 8.7600011439778531296e-13
   -2.6951389583840328514e-14`,
);
/** The even part of the amplitude of J0 and Y0 (DLMF 10.17) in 128 / x^2 - 1, x >= 8. */
const P0: Poly = coefficients(
  `0.999457275793 -0.000536366928977 6.13732440333e-6 -2.06823781504e-7 1.30451717081e-8`,
  `0.99945727578825195448 -0.00053636731921300470406 6.1374160801094975071e-6 -2.0527448156307146994e-7
   1.2803761440800920133e-8 -1.2121182069774232511e-9 1.5500565496632596564e-10 -2.4882702786880543705e-11
   4.7869958213680278929e-12 -1.0636861151667625636e-12 2.4531772967345006263e-13 -6.4167810080154145498e-14
   3.339452259070809034e-14 -1.1800027830201840443e-14`,
);
/** The odd part times x / 8, alike. */
const Q0: Poly = coefficients(
  `-0.0155551138827 6.83314930605e-5 -1.47708214946e-6 7.10458046109e-8 -5.81753274949e-9 6.75219504747e-10`,
  `-0.015555113879513518686 6.833149099343886934e-5 -1.4771388326463828424e-6 7.1062148595234373315e-8
   -5.6687161252251462032e-9 6.4327815856738226408e-10 -9.4703503069384709153e-11 1.7033142359521874526e-11
   -3.59086918214999847e-12 8.5975685957210764441e-13 -2.2894045665095408896e-13 6.9628335017749595271e-14
   -2.2643737264028860127e-14 4.6879815315079012415e-15 -1.2429356588525987002e-15 2.1449029578293447144e-15
   -9.5720659853779840609e-16`,
);
/** The even part of the amplitude of J1 and Y1 (DLMF 10.17) in 128 / x^2 - 1, x >= 8. */
const P1: Poly = coefficients(
  `1.00090702627 0.000898804504067 -7.95959347498e-6 2.47105358426e-7 -1.49751259929e-8`,
  `1.0009070262780821659 0.00089880494167055791422 -7.9596946984383004973e-6 2.4536766222672441123e-7
   -1.4708512991275257283e-8 1.360305804946831615e-9 -1.7131074852941310711e-10 2.720406848040164972e-11
   -5.1911580046465480174e-12 1.1462229852806783917e-12 -2.6335760672461095537e-13 6.8644866648461814401e-14
   -3.5455617466606254026e-14 1.2489929194563941278e-14`,
);
/** The odd part times x / 8, alike. */
const Q1: Poly = coefficients(
  `0.0467768740309 -9.62145904656e-5 1.82113969693e-6 -8.29018527987e-8 6.58335466212e-9 -7.49818190108e-10`,
  `0.046776874027448977627 -9.621458822054426513e-5 1.8212018512314264723e-6 -8.291960709022349471e-8
   6.4201324963389906933e-9 -7.1511052855124769629e-10 1.0395096687547826755e-10 -1.852470068817663067e-11
   3.8754560465382185287e-12 -9.2344695658695292983e-13 2.5034109684582307865e-13 -7.4133292871394169729e-14
   1.7495330566839966062e-14 -4.9913293396817438959e-15 5.3445272777435220403e-15 -2.255384000077740119e-15`,
);
/** K0(x) + log(x) I0(x) in x^2 / 2 - 1, 0 < x <= 2. */
const K0_NEAR: Poly = coefficients(
  `0.781905194368 0.781243085208 0.122785620116 0.00777646569171 0.000265858919809 5.6902120266e-6 8.33798637408e-8`,
  `0.78190519436791778227 0.78124308511073390357 0.12278562011464674825 0.007776466469814429723
   0.00026585892882551334252 5.6886558483558628447e-6 8.3365437591228877252e-8 8.8918557868156776649e-10
   7.213074767157563785e-12 4.5993673480028371519e-14`,
);
/** (K1(x) - log(x) I1(x) - 1 / x) / x, alike. */
const K1_NEAR: Poly = coefficients(
  `-0.498201620422 -0.210681841036 -0.0214238610186 -0.00100468809376 -2.72896020433e-5 -4.84272663465e-7`,
  `-0.49820162023255863493 -0.21068184102943453368 -0.02142386442877561947 -0.0010046881431505789453
   -2.7280508484375017352e-5 -4.841738921130947865e-7 -6.0618987394895961696e-9 -5.6437779856957110205e-11
   -4.0618864177821718288e-13 -2.3275906252884651895e-15`,
);
/** K0(x) e^x sqrt(x) in 4 / x - 1, x >= 2. */
const K0_FAR: Poly = coefficients(
  `1.21859533885 -0.0310714626456 0.00303287515717 -0.000479753043012 9.96896497245e-5 -2.48216745862e-5
   6.65885093777e-6 -2.00493365711e-6 1.09747635423e-6 -4.34568834404e-7`,
  `1.218595338513390539 -0.031071461824889561275 0.0030328918102737941055 -0.00047976905676172517471
   9.9560547493058544515e-5 -2.4735204700259257563e-5 7.0022442874876945465e-6 -2.1911758052676743895e-6
   7.42793220802875522e-7 -2.6892248671184384158e-7 1.0287980689458581581e-7 -4.1260785805968544322e-8
   1.7316225981819859666e-8 -7.539817679119424138e-9 3.1706299579942591517e-9 -1.3806246402870368308e-9
   1.0573777917720047301e-9 -6.3042293469984329088e-10 -2.4261113144233728939e-10 2.4099061000287123465e-10
   3.8830274992959129965e-10 -2.7839866456683264526e-10 -1.5750973144552286166e-10 1.1263163372545189769e-10
   4.4463261136368368268e-11 -2.90777875971452179e-11`,
);
/** K1(x) e^x sqrt(x) in 4 / x - 1, x >= 2. */
const K1_FAR: Poly = coefficients(
  `1.36315188997 0.103349738706 -0.005566710346 0.000735705576068 -0.000139741749033 3.29442464391e-5
   -8.55775873867e-6 2.51362518129e-6 -1.32425759561e-6 5.1585273733e-7`,
  `1.3631518903713419661 0.10334973775386527572 -0.0055667298800729303027 0.00073572415490326768959
   -0.00013959021964175082932 3.2843865708633977425e-5 -8.9612059125497111768e-6 2.7300392852920253626e-6
   -9.0672298848302430808e-7 3.2299837799373861016e-7 -1.2195093824501613511e-7 4.8376958519292964336e-8
   -2.0109398585523844745e-8 8.6839825340966741171e-9 -3.6392649099501708578e-9 1.5795148419022103725e-9
   -1.1800978084983069095e-9 6.9703649839340732878e-10 2.5605330829416351878e-10 -2.572261823390638509e-10
   -4.2190635517826635264e-10 3.0156054206095789293e-10 1.7042975296653418837e-10 -1.2166048210042579306e-10
   -4.8291072816275961521e-11 3.1505349914234430781e-11`,
);
/** Ai and Ai' at the whole numbers from -5 to 2. */
const AIRY_AT: readonly (readonly [value: number, slope: number])[] = [
  [0.35076100902411431979, 0.32719281855444313679],
  [-0.070265532949289515099, -0.7906285753685813803],
  [-0.37881429367765807435, 0.31458376921659881365],
  [0.22740742820168557599, 0.61825902074169104141],
  [0.5355608832923521188, -0.010160567116645209395],
  [0.35502805388781723926, -0.25881940379280679841],
  [0.13529241631288141552, -0.15914744129679321279],
  [0.034924130423274379135, -0.053090384433653631704],
];
/** Ai(x) e^u sqrt(sqrt(x)) in 2 c / u - 1, x >= 2, where u = 2/3 x^(3/2), and c is that of 2. */
const AIRY_FAR: Poly = coefficients(
  `0.277490802517 -0.00412238073324 0.000398654060522 -6.4273245335e-5 1.36922665423e-5 -3.49954181586e-6
   9.56361703583e-7 -2.93698445284e-7 1.70061849571e-7 -6.92110857505e-8`,
  `0.27749080246165456684 -0.0041223805958495025398 0.00039865677489423775723 -6.4275922775350565229e-5
   1.3671255973059718642e-5 -3.4851093004655646049e-6 1.0121086862374645739e-6 -3.2469801258576506968e-7
   1.1275874115922822513e-7 -4.1787738471394812383e-8 1.635033756586085347e-8 -6.7015614987117762096e-9
   2.8775692025631379427e-9 -1.2814628925385595485e-9 5.3721279898200843077e-10 -2.3329737184857314042e-10
   2.0758260750455790166e-10 -1.3064186396756499619e-10 -6.4574940649521083558e-11 6.1415481799424016758e-11
   8.8323839504280240437e-11 -6.4923214482733596283e-11 -3.6750593326256837432e-11 2.6736513675745483219e-11
   1.0083984388608058117e-11 -6.7331955269701581203e-12`,
);
/** Ai'(x) e^u / sqrt(sqrt(x)), alike. */
const AIRY_SLOPE_FAR: Poly = coefficients(
  `-0.288661167934 -0.00598410832877 0.000487310306102 -7.41568188629e-5 1.53380701522e-5 -3.84975818064e-6
   1.04114159658e-6 -3.1713883374e-7 1.81183390569e-7 -7.3333909098e-8`,
  `-0.28866116799251647422 -0.0059841081843264871733 0.00048731317078473001755 -7.4159634164617664286e-5
   1.5315891309229197962e-5 -3.8345793268833083692e-6 1.1000090230336058162e-6 -3.4975263830756261493e-7
   1.2063049630309650604e-7 -4.4462856967343818955e-8 1.7320346811405644267e-8 -7.0730989620406930111e-9
   3.0272121990709211737e-9 -1.34430364358297936e-9 5.6319001114043520314e-10 -2.4442344126775677798e-10
   2.1526861587782739924e-10 -1.3504284618537169137e-10 -6.5941449554229452173e-11 6.285485109243588771e-11
   9.0829282339289023907e-11 -6.6698145358695889713e-11 -3.7748457673842315396e-11 2.7445924427073038211e-11
   1.0369959361478849684e-11 -6.9185366768554153357e-12`,
);
/** The even part of the amplitude of Ai (DLMF 9.7) in 2 c^2 / u^2 - 1, x <= -5, where u = 2/3 |x|^(3/2), c that of 5. */
const AIRY_P: Poly = coefficients(
  `0.999670273166 -0.000325431627253 4.12857354438e-6 -1.55638469459e-7 1.09167675576e-8`,
  `0.99967027316035665632 -0.00032543198726407717612 4.1286661582946956789e-6 -1.5421120172357626055e-7
   1.0673426632855960625e-8 -1.111947883838327934e-9 1.5522262548635302084e-10 -2.7003591428776717528e-11
   5.6028890491962181144e-12 -1.3356954375599219428e-12 3.1998747979878034728e-13 -8.740150514114807004e-14
   5.2727784242470917252e-14 -1.9812122863900244363e-14`,
);
/** The odd part times u / c, alike. */
const AIRY_Q: Poly = coefficients(
  `0.00927225915128 -4.3574734161e-5 1.05366467688e-6 -5.65412268785e-8 5.15225987824e-9 -6.58822199944e-10`,
  `0.0092722591478984788902 -4.3574731767921372824e-5 1.0537250019853911693e-6 -5.6560113621002012682e-8
   4.9943025831527038948e-9 -6.2204600540806669792e-10 9.9726840358053799909e-11 -1.9397001838577760774e-11
   4.396154849938428459e-12 -1.1278692120587634526e-12 3.1822557885875881554e-13 -9.7751057728163047941e-14
   3.6358034648030468196e-14 -1.3824101085922933235e-14 1.4832368145847768105e-15 -4.8973665866586747004e-17
   1.9892236137050043518e-15 -9.8204772543395433503e-16`,
);
/** The even part of the amplitude of Ai', alike. */
const AIRY_SLOPE_P: Poly = coefficients(
  `1.00039009605 0.000385416854537 -4.50247379419e-6 1.65207288987e-7 -1.14357462103e-8`,
  `1.0003900960582059256 0.00038541722875151648937 -4.5025695680298176631e-6 1.6372359358767122544e-7
   -1.1184078985386811059e-8 1.1561780524468608796e-9 -1.6057920954802869614e-10 2.783524278224593775e-11
   -5.759748023392335705e-12 1.3701839651716378587e-12 -3.2788871175602014665e-13 8.9461945637572177274e-14
   -5.3816992316401295793e-14 2.0200518573749952037e-14`,
);
/** The odd part of the amplitude of Ai' times u / c, alike. */
const AIRY_SLOPE_Q: Poly = coefficients(
  `-0.0129937251488 4.88090418532e-5 -1.1300696839e-6 5.95504295136e-8 -5.37143350429e-9 6.82562571748e-10`,
  `-0.012993725145355893278 4.8809039392097553352e-5 -1.1301319217833969986e-6 5.9569854459055325186e-8
   -5.2084514816519715702e-9 6.4473411354800824719e-10 -1.029301024083444378e-10 1.9958873217601436494e-11
   -4.5129629973051658006e-12 1.155708143060916912e-12 -3.2561166362388788161e-13 9.9901246759036947694e-14
   -3.7098803084431152497e-14 1.4089850215806210215e-14 -1.5211641060624310778e-15 5.5031911130888986443e-17
   -2.0223782169678267551e-15 9.9783628714181413802e-16`,
);

function minus(a: UOp, b: UOp): UOp {
  return a.add(scale(b, -1));
}
/** `x` above 0, -infinity or what else it is at 0, NaN below. */
function ofPositive(x: UOp, value: UOp, atZero: number): UOp {
  const end = select(x.eq(constant(0, x.dtype)), atZero, floatConst(NaN, x.dtype));
  return lt(x, 0).or(x.eq(constant(0, x.dtype))).where(end, value);
}

// ---- waves

/** Up to where polynomials are of x^2. */
const END = 8;

/** J of order 0 or 1 for 0 <= x <= END by its polynomial, with its first roots. */
function jNear(order: 0 | 1, x: UOp): UOp {
  const z = x.mul(x), [a, b] = order === 0 ? J0_ROOTS : J1_ROOTS;
  const value = shift(z, -a).mul(shift(z, -b)).mul(poly(order === 0 ? J0_NEAR : J1_NEAR, shift(scale(z, 1 / 32), -1)));
  return order === 0 ? value : value.mul(x);
}
/** J or Y of order 0 or 1 for x >= END: waves of an amplitude whose phases are those of x, turned by pi / 4 or 3 pi / 4. */
function waveFar(order: 0 | 1, isJ: boolean, x: UOp): UOp {
  const r = over(END, x),
    t = shift(scale(r.mul(r), 2), -1),
    s = x.sin(),
    c = x.cos(),
    sum = s.add(c),
    rest = minus(s, c);
  const even = poly(order === 0 ? P0 : P1, t), odd = poly(order === 0 ? Q0 : Q1, t).mul(r);
  const size = over(1 / Math.PI, x).sqrt(), sign = order === 0 || isJ ? 1 : -1;
  const [first, second] = (order === 0) === isJ ? [sum, scale(rest, order === 0 ? -1 : 1)] : [rest, sum];
  // of order 1 the phase is a quarter further: J1 as Y0, Y1 as -J0
  return size.mul(scale(even.mul(first), sign).add(odd.mul(second)));
}
function jValue(order: 0 | 1, x: UOp): UOp {
  const a = absNode(x), isNear = lt(a, END), near = jNear(order, pick(isNear, a, 0));
  const value = isNear.where(near, waveFar(order, true, select(isNear, END, a)));
  return order === 0 ? value : value.mul(signOf(x));
}
function yValue(order: 0 | 1, x: UOp): UOp {
  const isNear = lt(x, END),
    n = pick(isNear.and(floatConst(0, x.dtype).lt(x)), x, 1),
    t = shift(scale(n.mul(n), 1 / 32), -1);
  const logs = logNode(n).mul(jNear(order, n));
  const near = order === 0
    ? scale(logs, 2 / Math.PI).add(poly(Y0_NEAR, t))
    : scale(minus(logs, over(1, n)), 2 / Math.PI).add(n.mul(poly(Y1_NEAR, t)));
  return ofPositive(x, isNear.where(near, waveFar(order, false, select(isNear, END, x))), -Infinity);
}

const J0_SLOPE = slope((x) => scale(j1Node(x), -1));
/** At 0 J1(x) / x is 1/2. */
const J1_SLOPE = slope((x, y) => minus(j0Node(x), ratio(x, y)));
const Y0_SLOPE = slope((x) => scale(y1Node(x), -1));
const Y1_SLOPE = slope((x, y) => minus(y0Node(x), y.fdiv(x)));
/** J0(x). */
export function j0Node(x: UOp): UOp {
  return withGradient(jValue(0, x), [x], J0_SLOPE);
}
/** J1(x). */
export function j1Node(x: UOp): UOp {
  return withGradient(jValue(1, x), [x], J1_SLOPE);
}
/** Y0(x): -infinity at 0, NaN below. */
export function y0Node(x: UOp): UOp {
  return withGradient(yValue(0, x), [x], Y0_SLOPE);
}
/** Y1(x): -infinity at 0, NaN below. */
export function y1Node(x: UOp): UOp {
  return withGradient(yValue(1, x), [x], Y1_SLOPE);
}

/** The series of -j1(x) / x in x^2: as many terms as count for |x| < 3/2. */
const SPHERICAL = [7, 12].map((terms) => {
  let c = 1 / 3;
  return Array.from({ length: terms }, (_, i) => i === 0 ? -c : -(c *= -1 / (2 * i * (2 * i + 3))));
});
const SPHERICAL_SLOPE = slope((x, y) => {
  const isNear = lt(absNode(x), 1.5), n = pick(isNear, x, 0), f = select(isNear, 1.5, x);
  const far = minus(f.cos(), y).fdiv(f);
  return isNear.where(n.mul(horner(SPHERICAL[x.dtype === dtypes.float64 ? 1 : 0], n.mul(n))), far);
});
/** sin(x) / x: 1 at 0, and 0 at infinity. */
export function sphericalJ0Node(x: UOp): UOp {
  const isZero = x.eq(constant(0, x.dtype)), isInf = absNode(x).eq(floatConst(Infinity, x.dtype));
  const f = select(isZero.or(isInf), 1, x), value = f.sin().fdiv(f);
  return withGradient(select(isZero, 1, select(isInf, 0, value)), [x], SPHERICAL_SLOPE);
}

// ---- modified functions of the second kind

/** K of order 0 or 1, times e^x where it is `scaled`. */
function kValue(order: 0 | 1, x: UOp, scaled: boolean): UOp {
  const d = x.dtype, isNear = lt(x, 2), n = pick(isNear.and(floatConst(0, d).lt(x)), x, 1), f = select(isNear, 2, x);
  const t = shift(scale(n.mul(n), 0.5), -1);
  const inner = order === 0
    ? minus(poly(K0_NEAR, t), logNode(n).mul(i0Node(n)))
    : n.mul(poly(K1_NEAR, t)).add(over(1, n)).add(logNode(n).mul(i1Node(n)));
  const near = scaled ? inner.mul(expNode(n)) : inner;
  const outer = poly(order === 0 ? K0_FAR : K1_FAR, shift(over(4, f), -1)).fdiv(f.sqrt());
  return ofPositive(x, isNear.where(near, scaled ? outer : outer.mul(expNode(scale(f, -1)))), Infinity);
}
const K0_SLOPE = slope((x) => scale(k1Node(x), -1));
const K1_SLOPE = slope((x, y) => scale(k0Node(x).add(y.fdiv(x)), -1));
const K0E_SLOPE = slope((x, y) => minus(y, k1eNode(x)));
const K1E_SLOPE = slope((x, y) => minus(minus(y, k0eNode(x)), y.fdiv(x)));
/** K0(x): infinite at 0, NaN below. */
export function k0Node(x: UOp): UOp {
  return withGradient(kValue(0, x, false), [x], K0_SLOPE);
}
/** K1(x): infinite at 0, NaN below. */
export function k1Node(x: UOp): UOp {
  return withGradient(kValue(1, x, false), [x], K1_SLOPE);
}
/** K0(x) e^x. */
export function k0eNode(x: UOp): UOp {
  return withGradient(kValue(0, x, true), [x], K0E_SLOPE);
}
/** K1(x) e^x. */
export function k1eNode(x: UOp): UOp {
  return withGradient(kValue(1, x, true), [x], K1E_SLOPE);
}

// ---- Airy's function

/** Polynomials of Ai or its slope: for large x, and of both parts of the amplitude for x far below 0. */
type AiryTables = readonly [far: Poly, even: Poly, odd: Poly];
const AIRY: readonly [AiryTables, AiryTables] = [
  [AIRY_FAR, AIRY_P, AIRY_Q],
  [AIRY_SLOPE_FAR, AIRY_SLOPE_P, AIRY_SLOPE_Q],
];
/** Where the middle ends, below 0 and above, and from where on there is nothing left in any dtype. */
const LOW = 5, HIGH = 2, NONE = 200;
const angle = (x: number): number => 2 / 3 * x ** 1.5;

/** 2/3 x^(3/2) for x > 0, and what its rounding leaves of it: a wave is turned, and an exponential scaled, by all of it. */
function angleNodes(x: UOp, root: UOp): [UOp, UOp] {
  const a = leadNode(x), b = minus(x, a), c = leadNode(root), d = minus(root, c);
  const rest = minus(minus(minus(x, c.mul(c)), scale(c.mul(d), 2)), d.mul(d)).fdiv(scale(root, 2)); // of the root
  const p = x.mul(root), low = minus(a.mul(c), p).add(a.mul(d)).add(b.mul(c)).add(b.mul(d)).add(x.mul(rest));
  const v = scale(p, 2).fdiv(floatConst(3, x.dtype)), e = leadNode(v), f = minus(v, e);
  return [v, scale(minus(minus(scale(p, 2), scale(e, 3)), scale(f, 3)).add(scale(low, 2)), 1 / 3)];
}

/** Ai(x), or its slope, for -5.5 <= x <= 2.5: the series about the nearest whole number, whose terms follow from Ai'' = x Ai. */
function airyMiddle(x: UOp, derivative: 0 | 1): UOp {
  const center = roundNode(x), h = minus(x, center), [first, ...others] = AIRY_AT.map((_, i) => i);
  const at = (k: 0 | 1): UOp =>
    others.reduce(
      (v, i) => select(center.eq(floatConst(i - LOW, x.dtype)), AIRY_AT[i][k], v),
      floatConst(AIRY_AT[first][k], x.dtype),
    );
  const terms = [at(0), at(1)];
  for (let n = 2; n < (x.dtype === dtypes.float64 ? 24 : 14); n++) {
    const next = center.mul(terms[n - 2]);
    terms.push(scale(n === 2 ? next : next.add(terms[n - 3]), 1 / (n * (n - 1))));
  }
  const series = derivative === 0 ? terms : terms.slice(1).map((t, i) => scale(t, i + 1));
  return series.reduceRight((sum, t) => sum.mul(h).add(t));
}

/** Ai(x), or its slope. */
function airyValue(x: UOp, derivative: 0 | 1): UOp {
  const [far, even, odd] = AIRY[derivative], isLow = lt(x, -LOW), isMiddle = lt(x, HIGH);
  const middle = airyMiddle(pick(isMiddle, select(isLow, 0, x), 0), derivative);
  const isNone = floatConst(NONE, x.dtype).lt(x),
    h = select(isNone.or(isMiddle), HIGH, x),
    root = h.sqrt(),
    [u, rest] = angleNodes(h, root);
  const amplitude = poly(far, shift(over(2 * angle(HIGH), u), -1)).mul(expNode(scale(u, -1)));
  const exact = minus(amplitude, amplitude.mul(rest)), quarter = root.sqrt();
  const high = derivative === 0 ? exact.fdiv(quarter) : exact.mul(quarter);
  const l = scale(isLow.where(x, floatConst(-LOW, x.dtype)), -1), side = l.sqrt(), [v, turn] = angleNodes(l, side);
  const r = over(angle(LOW), v), t = shift(scale(r.mul(r), 2), -1), sine = v.sin(), cosine = v.cos();
  const s = sine.add(cosine.mul(turn)), c = minus(cosine, sine.mul(turn));
  const p = poly(even, t), q = poly(odd, t).mul(r), sum = s.add(c), difference = minus(s, c); // turned by pi / 4
  const wave = derivative === 0 ? p.mul(sum).add(q.mul(difference)) : minus(p.mul(difference), q.mul(sum));
  const size = derivative === 0 ? over(1, side.sqrt()) : side.sqrt();
  const low = scale(wave.mul(size), Math.sqrt(0.5 / Math.PI));
  return isLow.where(low, isMiddle.where(middle, select(isNone, 0, high)));
}
const AIRY_SLOPE: GradientArg = slope((x) => withGradient(airyValue(x, 1), [x], AIRY_CURVE));
/** Ai'' is x Ai. */
const AIRY_CURVE: GradientArg = slope((x) => x.mul(airyNode(x)));
/** Ai(x). */
export function airyNode(x: UOp): UOp {
  return withGradient(airyValue(x, 0), [x], AIRY_SLOPE);
}

// ---- Hurwitz's zeta function

/** B_2j / (2j)!, j from 1. */
const BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330]
  .map((b, i) => {
    for (let k = 2; k <= 2 * (i + 1); k++) b /= k;
    return b;
  });
/** Terms that are summed one by one, and of Euler and Maclaurin's expansion of the rest (DLMF 25.11.5), by dtype. */
const ZETA_TERMS: readonly (readonly [steps: number, terms: number])[] = [[8, 5], [12, 10]];

const ZETA = new GradientArg((g, [s, q]) => {
  return [undefined, () => scale(g.mul(s).mul(zetaNode(shift(s, 1), q)), -1)];
}, true);
/** The sum of (q + k)^-s over k from 0: infinite for s = 1 and where a term is, NaN for s below 1 and other q below 0. */
export function zetaNode(s: UOp, q: UOp): UOp {
  const d = s.dtype,
    one = floatConst(1, d),
    zero = constant(0, d),
    [steps, terms] = ZETA_TERMS[d === dtypes.float64 ? 1 : 0];
  const isInf = q.eq(floatConst(Infinity, d)), isFine = one.lt(s).and(zero.lt(q)).and(q.ne(floatConst(Infinity, d)));
  const order = select(s.eq(one).or(lt(s, 1)), 2, s), from = isFine.where(q, one), power = scale(order, -1);
  let sum = zero;
  for (let k = 0; k < steps; k++) sum = sum.add(powNode(shift(from, k), power));
  // the integral of the rest may count where end^-s is too small a number; s - 1 is exact
  const end = shift(from, steps), last = powNode(end, power), r = over(1, end), square = r.mul(r);
  const before = shift(order, -1), integral = powNode(end, scale(before, -1)).fdiv(before);
  sum = sum.add(integral).add(scale(last, 0.5));
  let factor = last.mul(r).mul(order);
  for (let j = 0; j < terms; j++) {
    sum = sum.add(scale(factor, BERNOULLI[j]));
    factor = factor.mul(shift(order, 2 * j + 1)).mul(shift(order, 2 * j + 2)).mul(square);
  }
  const isPole = lt(q, 0).or(q.eq(zero)).and(q.eq(floorNode(q))).and(one.lt(s)).or(s.eq(one).and(q.eq(q)));
  const other = select(isInf.and(one.lt(s)), 0, select(isPole, Infinity, floatConst(NaN, d)));
  return withGradient(isFine.where(sum, other), [s, q], ZETA);
}
