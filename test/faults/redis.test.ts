// Redis away, full, or replaced by its replica; a race for the end.
import { testFaults } from './short.ts';

testFaults('4', '12', '14', '27', '6 cluster replicated');
